// Ranks are killed at any moment, even while the others agree on the survivors. The survivors go on with their own
// data.
#include <numeric>
#include <random>

#include "tests/support/processes.hpp"
#include "tests/support/resources.hpp"

namespace wreath::testing_support::shrinking {
namespace {

constexpr int kRanks = 8;
constexpr std::int64_t kEndMs = 30'000 * kSlower;

std::string list_of(const std::vector<float>& present) {
  std::string text;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (present[static_cast<std::size_t>(rank)] == 1) text += " " + std::to_string(rank);
  }
  return text;
}

// Returns whether `sums` are the sums of a communicator of `ranks` ranks. Each member adds 1 at its own place of the
// first kRanks places, and at all places behind them.
bool correct(const std::vector<float>& sums, int ranks) {
  const auto members = std::count(sums.begin(), sums.begin() + kRanks, 1.0F);
  const auto others = std::count(sums.begin(), sums.begin() + kRanks, 0.0F);
  const auto rest = std::count(sums.begin() + kRanks + 1, sums.end(), static_cast<float>(ranks));
  return members == ranks && members + others == kRanks &&
         rest == static_cast<std::ptrdiff_t>(sums.size()) - kRanks - 1;
}

// Reduces without end, and goes on without ranks that fail. Reports the members of each communicator once it has
// reduced with them. Ends when the parent has sent one of the ranks "stop".
int reduce_and_shrink(Child& child, Communicator communicator) {
  std::vector<float> sums(static_cast<std::size_t>(child.number("bytes")) / sizeof(float) + kRanks + 1);
  bool stopping = false;
  std::string told;
  for (;;) {
    stopping = stopping || child.command(0) == "stop";
    std::fill(sums.begin(), sums.end(), 1.0F);
    std::fill(sums.begin(), sums.begin() + kRanks + 1, 0.0F);
    sums[static_cast<std::size_t>(child.rank())] = 1;
    sums[kRanks] = stopping ? 1 : 0;
    if (const Status status = communicator.all_reduce(std::span<float>(sums)); status) {
      const std::string members = list_of(sums);
      if (!correct(sums, communicator.ranks())) child.report("wrong sums:" + members);
      if (members != told) child.report("pid " + std::to_string(::getpid()) + " members" + members);
      told = members;
      if (sums[kRanks] > 0) return 0;
      continue;
    }
    auto survivors = communicator.shrink(child.number("shrink_ms", 30'000 * kSlower));
    if (!survivors) return child.failed(survivors.error());
    communicator = std::move(*survivors);
  }
}

WREATH_ROLE(survive) {
  std::thread([] {}).join();  // a sanitizer's own thread comes with the first
  const Resources before = resources_of();
  auto communicator = child.create();
  if (!communicator) return child.failed(communicator.error());
  child.report("made");
  const int code = reduce_and_shrink(child, std::move(*communicator));
  if (code != 0) return code;
  if (eventually(5'000 * kSlower, [&] { return resources_of().same_counts(before); })) return 0;
  child.report("left: " + describe(before) + " -> " + describe(resources_of()));
  return 1;
}

struct Shape {
  std::string transport;
  std::int64_t bytes;
};

std::string members_without(const std::set<int>& gone) {
  std::string text;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (!gone.contains(rank)) text += " " + std::to_string(rank);
  }
  return text;
}

// Expects all ranks but `gone` to reduce with each other, in the same processes as before.
void expect_survivors(Job& job, const std::set<int>& gone) {
  const Deadline deadline = Deadline::after_ms(kEndMs);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (gone.contains(rank)) continue;
    const std::string line = "pid " + std::to_string(job[rank].pid()) + " members" + members_without(gone);
    bool found = false;
    while (!found) {
      const auto next = job[rank].line(deadline.left_ms());
      ASSERT_TRUE(next.has_value()) << "rank " << rank << " never said '" << line << "'\n" << job.logs();
      ASSERT_FALSE(next->starts_with("wrong") || next->starts_with("error")) << *next << "\n" << job.logs();
      found = *next == line;
    }
  }
}

void expect_ends(Job& job, const std::set<int>& gone) {
  for (int rank = 0; rank < kRanks; ++rank) {
    if (!gone.contains(rank)) job[rank].command("stop");
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    if (gone.contains(rank)) continue;
    const auto ended = job[rank].join(kEndMs);
    ASSERT_TRUE(ended.has_value()) << "rank " << rank << " did not end\n" << job.logs();
    EXPECT_EQ(*ended, 0) << "rank " << rank << "\n" << job.logs();
  }
}

// Kills one to three ranks, each up to 40 ms after the one before it. They die in calls, in the agreement, or in the
// start that follows.
void kill_some(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned limit) { return static_cast<int>(random() % limit); };
  const std::set<std::string> before = left_on_host();
  Job job("survive", kRanks, {{"transport", shape.transport}, {"bytes", std::to_string(shape.bytes)}});
  ASSERT_TRUE(job.share_id());
  ASSERT_TRUE(job.all_report("made", 60'000 * kSlower)) << job.logs();
  std::vector<int> ranks(kRanks);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::shuffle(ranks.begin(), ranks.end(), random);
  const std::set<int> victims(ranks.begin(), ranks.begin() + 1 + below(3));
  for (const int victim : victims) {
    std::this_thread::sleep_for(std::chrono::microseconds(below(40'000)));
    job[victim].signal(SIGKILL);
  }
  expect_survivors(job, victims);
  if (!::testing::Test::HasFatalFailure()) expect_ends(job, victims);
  EXPECT_TRUE(nothing_left_since(before));
}

class Shrinking : public ::testing::TestWithParam<Shape> {};

TEST_P(Shrinking, GoesOnWithoutThoseThatDieAtAnyMoment) {
  const int count = rounds(2, 200);
  for (int i = 0; i < count && !HasFailure(); ++i) {
    SCOPED_TRACE("round " + std::to_string(i));
    kill_some(GetParam(), static_cast<unsigned>(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Shrinking,
                         ::testing::Values(Shape{"shm", 64}, Shape{"shm", 4 << 20}, Shape{"tcp", 64},
                                           Shape{"tcp", 1 << 20}),
                         [](const auto& row) { return row.param.transport + std::to_string(row.param.bytes); });

// A stopped process is not a dead one. The others wait for it for the time that was set, and it learns that it was left
// out.
TEST(Shrink, LeavesOutWhoLivesButDoesNotAnswer) {
  constexpr int kStopped = 2;
  constexpr int kKilled = 5;
  Job job("survive", kRanks, {{"transport", "shm"}, {"bytes", "64"}, {"shrink_ms", "3000"}});
  ASSERT_TRUE(job.share_id());
  ASSERT_TRUE(job.all_report("made", 60'000 * kSlower)) << job.logs();
  job[kStopped].signal(SIGSTOP);
  job[kKilled].signal(SIGKILL);
  expect_survivors(job, {kStopped, kKilled});
  job[kStopped].signal(SIGCONT);
  const auto ended = job[kStopped].join(kEndMs);
  ASSERT_TRUE(ended.has_value()) << job.logs();
  const auto failure = job[kStopped].failure();
  ASSERT_TRUE(failure.has_value()) << job.logs();
  EXPECT_EQ(failure->code, ErrorCode::PeerLost) << failure->message;
  if (!HasFatalFailure()) expect_ends(job, {kStopped, kKilled});
}

}  // namespace
}  // namespace wreath::testing_support::shrinking
