// Ranks are killed and new ones join while a GPT is trained. Training goes on, with the losses of a run that nothing
// disturbs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <random>
#include <set>

#include "tests/training/elastic/members.hpp"
#include "training/elastic/elastic_world.hpp"

namespace wreath::gpt::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing_support::kSanitized;
using testing_support::rounds;

constexpr std::int64_t kSteps = 40;
constexpr double kLossBound = 5e-7;  // relative, as in tests/training/meshes
// The job saves every 10 steps. A save waits for the one before it, so that the first checkpoint is whole here.
constexpr std::int64_t kFirstSaved = 21;
constexpr int kKilled = 1000 + SIGKILL;

std::set<std::string> shared_memory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (name.find("wreath") != std::string::npos) names.insert(name);
  }
  return names;
}

double largest_difference(const std::vector<double>& losses) {
  const std::vector<double>& reference = undisturbed(kSteps);
  EXPECT_EQ(losses.size(), reference.size());
  double largest = 0;
  for (std::size_t i = 0; i < std::min(losses.size(), reference.size()); ++i) {
    largest = std::max(largest, std::abs(losses[i] - reference[i]) / reference[i]);
  }
  return largest;
}

// Expects that the job ended well except for the killed members, and that its log is whole. Returns the largest
// difference of the loss.
double expect_undisturbed(Members& members, const std::set<int>& killed) {
  for (const auto& [number, code] : members.wait()) {
    EXPECT_EQ(code, killed.contains(number) ? kKilled : 0) << "member " << number << "\n" << members.logs();
  }
  const double difference = largest_difference(losses_of(members.csv()));
  EXPECT_LE(difference, kLossBound) << members.logs();
  EXPECT_THAT(members.leftovers(), IsEmpty());
  return difference;
}

struct Kind {
  const char* name;
  JobShape shape;
  Arguments arguments;
  int trains;         // members that train at first
  std::int64_t from;  // the first step to kill at
};

// Kills a member that trains, at a random step. Returns the seconds until the next step is done.
double kill_one(Members& members, const Kind& kind, std::mt19937& random, std::set<int>& killed) {
  const auto step = kind.from + static_cast<std::int64_t>(random() % static_cast<unsigned>(kSteps - 5 - kind.from));
  EXPECT_TRUE(members.wait_for_steps(step)) << members.logs();
  const int victim = static_cast<int>(random() % static_cast<unsigned>(kind.trains));
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 6000));
  members.kill(victim);
  killed.insert(victim);
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t before = members.steps_written();
  EXPECT_TRUE(members.wait_for_steps(std::min(before + 1, kSteps))) << members.logs();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void kill_often(const Kind& kind) {
  std::mt19937 random(17);
  double worst_seconds = 0;
  double worst_difference = 0;
  const int kills = rounds(kSanitized ? 1 : 2, 20);
  const std::set<std::string> before = shared_memory();
  for (int i = 0; i < kills; ++i) {
    Members members("trains", kind.shape, kind.arguments);
    std::set<int> killed;
    worst_seconds = std::max(worst_seconds, kill_one(members, kind, random, killed));
    worst_difference = std::max(worst_difference, expect_undisturbed(members, killed));
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_EQ(shared_memory(), before);
  std::printf("%s: %d kills: largest difference of the loss %.2g, at most %.2f s until steps went on\n", kind.name,
              kills, worst_difference, worst_seconds);
}

Arguments arguments_of(const Arguments& more) {
  Arguments arguments{{"steps", std::to_string(kSteps)}};
  arguments.insert(more.begin(), more.end());
  return arguments;
}

TEST(Elastic, ShrinksAndLosesAtMostAStep) {
  kill_often({"dp4 shrinks", {.members = 4}, arguments_of({{"dp", "4"}}), 4, 1});
}

TEST(Elastic, ASpareTakesOver) { kill_often({"a spare for dp3", {.members = 4}, arguments_of({{"dp", "3"}}), 3, 1}); }

TEST(Elastic, GoesOnFromTheCheckpointWhereStateIsDivided) {
  kill_often({"ZeRO 2 on dp2, a spare, from a checkpoint",
              {.members = 3},
              arguments_of({{"dp", "2"}, {"zero", "2"}, {"checkpoint", "1"}}),
              2,
              kFirstSaved});
}

TEST(Elastic, GoesOnFromTheCheckpointWhereAPartIsLost) {
  Members members("trains", {.members = 3}, arguments_of({{"tp", "2"}, {"checkpoint", "1"}}));
  ASSERT_TRUE(members.wait_for_steps(kFirstSaved));
  members.kill(1);
  expect_undisturbed(members, {1});
  EXPECT_THAT(members.log(0), HasSubstr("with the state of the last checkpoint"));
}

TEST(Elastic, APartMovesToARankThatHadAnother) {
  Members members("trains", {.members = 5}, arguments_of({{"dp", "2"}, {"tp", "2"}}));
  ASSERT_TRUE(members.wait_for_steps(5));
  members.kill(0);
  expect_undisturbed(members, {0});
  EXPECT_THAT(members.log(1), HasSubstr("with the state of the ranks that are left"));
}

// The first rank has done step 5 and holds part 0. The second one fails in that step and holds part 1.
TEST(Elastic, AStepThatOnlySomeRanksHaveDoneIsCompleted) {
  Members members("trains", {.members = 2}, arguments_of({{"tp", "2"}, {"torn", "5"}}));
  expect_undisturbed(members, {});
  EXPECT_THAT(members.log(0), HasSubstr("from step 6, with the state of the ranks that are left"));
}

TEST(Elastic, FirstRanksDieOneAfterTheOther) {
  Members members("trains", {.members = 4}, arguments_of({{"dp", "4"}}));
  for (const int first : {0, 1, 2}) {
    ASSERT_TRUE(members.wait_for_steps(members.steps_written() + 4));
    members.kill(first);
  }
  expect_undisturbed(members, {0, 1, 2});
  EXPECT_THAT(members.log(3), HasSubstr("member 2 (host "));
}

TEST(Elastic, TwoDieAtOnce) {
  Members members("trains", {.members = 4}, arguments_of({{"dp", "4"}}));
  ASSERT_TRUE(members.wait_for_steps(5));
  members.kill(0);
  members.kill(2);
  expect_undisturbed(members, {0, 2});
}

TEST(Elastic, AJoinerTrainsWithTheOthers) {
  Members members("trains", {.members = 2}, arguments_of({{"dp", "3"}}));
  ASSERT_TRUE(members.wait_for_steps(2));
  members.join(7);
  expect_undisturbed(members, {});
  EXPECT_THAT(members.log(0), HasSubstr("member 7"));
  EXPECT_TRUE(std::filesystem::exists(members.folder() + "/joined-7")) << "the launcher is not told";
  EXPECT_THAT(members.log(0), HasSubstr("3 of them as dp3"));
}

// All members that train find the divergence at the same step. Spares and members that come later do not wait for ever.
TEST(Elastic, TrainingThatDivergesEndsOnAllMembers) {
  Members members("trains", {.members = 3}, arguments_of({{"dp", "2"}, {"diverges", "1"}}));
  members.join(9);
  for (const auto& [number, code] : members.wait()) EXPECT_EQ(code, exit_code(ErrorCode::InvalidArgument)) << number;
  EXPECT_THAT(members.log(0), HasSubstr("training has diverged"));
  EXPECT_THAT(members.log(2), HasSubstr("the job has ended with code"));
}

// Meets the others again when a change is due, until 3 members are there. Then sums its number with theirs.
WREATH_ROLE(sums) {
  const ElasticJob job = elastic_job().value().value();
  training::ElasticOptions options;
  options.world_ranks = [](int members) { return members; };
  options.join_timeout_ms = 1'500 * testing_support::kSlower;
  const auto elastic = training::ElasticWorld::join(job, options).value();
  const training::Contribution mine{.holding = {}, .began = true, .unharmed = true, .keep_world = false, .notes = {}};
  while (elastic->pool().ranks() < 3) {
    if (!elastic->change_is_due()) continue;
    elastic->reform(mine).value();
    child.report("met " + std::to_string(elastic->pool().ranks()) +
                 (elastic->formation().same_world ? " same world" : " other world"));
  }
  std::int64_t sum = 1;
  elastic->world()->all_reduce(std::span(&sum, 1)).value();
  if (sum != 3) return 1;
  if (elastic->world()->rank() == 0) elastic->announce_over().value();
  return 0;
}

TEST(Elastic, AJoinerThatDiesWhileJoiningChangesNothing) {
  Members members("sums", {.members = 2}, {});
  const training::ElasticFolder folder(members.folder());
  ASSERT_TRUE(testing_support::eventually(60'000, [&] { return std::filesystem::exists(members.folder() + "/pool"); }));
  // This process lives, but never joins.
  ASSERT_TRUE(folder.ask({5, ::getpid(), training::own_host()}));
  ASSERT_TRUE(members[0].wait_for("met", 60'000 * testing_support::kSlower)) << members.logs();
  EXPECT_EQ(members[0].lines().back(), "met 2 same world");
  members.join(6);
  for (const auto& [number, code] : members.wait()) {
    EXPECT_EQ(code, 0) << members.logs();
    if (number == 6) continue;
    EXPECT_EQ(members[number].lines().back(), "met 3 other world");
  }
  EXPECT_THAT(members.leftovers(), IsEmpty());
}

TEST(Elastic, RequestsOfDeadProcessesAreRemoved) {
  const wreath::test::Folder path;
  const training::ElasticFolder folder(path.path());
  ASSERT_TRUE(folder.ask({3, 1 << 30, training::own_host()}));
  ASSERT_TRUE(folder.ask({12, ::getpid(), training::own_host()}));
  ASSERT_TRUE(folder.ask({4, 1 << 30, "elsewhere"}));
  const std::vector<training::Joiner> joiners = folder.joiners();
  ASSERT_EQ(joiners.size(), 2u);
  EXPECT_EQ(joiners[0].number, 4);
  EXPECT_EQ(joiners[1].number, 12);
  EXPECT_FALSE(std::filesystem::exists(path / "join-3"));
}

TEST(Elastic, TooFewLeftEndsWithTheCodeToStartAgain) {
  Members members("trains", {.members = 2, .min_ranks = 2}, arguments_of({{"dp", "2"}}));
  ASSERT_TRUE(members.wait_for_steps(2));
  members.kill(0);
  const std::map<int, int> codes = members.wait();
  EXPECT_EQ(codes.at(1), training::kStartAgainCode);
  EXPECT_THAT(members.log(1), HasSubstr("1 rank is left: too few to go on (the job's least is 2)"));
}

TEST(Elastic, LostStateEndsWithTheCodeToStartAgain) {
  Members members("trains", {.members = 3}, arguments_of({{"dp", "2"}, {"zero", "2"}}));
  ASSERT_TRUE(members.wait_for_steps(2));
  members.kill(0);
  const std::map<int, int> codes = members.wait();
  EXPECT_EQ(codes.at(1), training::kStartAgainCode);
  EXPECT_THAT(members.log(1), HasSubstr("no rank is left that holds state whole, and there is no checkpoint"));
}

}  // namespace
}  // namespace wreath::gpt::test
