// The launcher decides for elastic jobs what the end of a member means, and how many ranks fit on the hosts that are
// left.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/surroundings.hpp"
#include "tools/run/elastic_folder.hpp"
#include "tools/run/elastic_members.hpp"
#include "tools/run/hosts.hpp"

namespace wreath::launcher {
namespace {

using ::testing::HasSubstr;
using Next = Members::Next;

RankEnd ended(int rank, int code) { return {rank, "h", 100 + rank, code << 8, ""}; }
RankEnd killed(int rank) { return {rank, "h", 100 + rank, SIGKILL, ""}; }
RankEnd lost(int rank, int pid) { return {rank, "h", pid, 0, "lost with its host", true}; }
RankEnd refused(int rank) { return {rank, "h", 0, 0, "cannot run 'x'"}; }

class MembersTest : public ::testing::Test {
 protected:
  Members members(int count, int min_ranks, int max_restarts) {
    Members made(min_ranks, max_restarts, [this](int number) { return joined_.contains(number); });
    made.begin(count);
    return made;
  }
  std::set<int> joined_;
};

TEST_F(MembersTest, GoOnWhileEnoughAreLeft) {
  Members some = members(4, 2, 3);
  EXPECT_EQ(some.take({killed(1)}), Next::GoOn);
  EXPECT_EQ(some.obituary(killed(1)), "rank 1 (host h, pid 101): ended by signal 9 (Killed); 3 of 4 go on");
  EXPECT_EQ(some.take({killed(3)}), Next::GoOn);
  EXPECT_EQ(some.take({killed(0)}), Next::StartAgain);
  EXPECT_THAT(some.obituary(killed(0)), HasSubstr("; 1 of 2 are left, but --min is 2: they are ended"));
  EXPECT_EQ(some.restarts(), "1 of 3");
}

TEST_F(MembersTest, ThatDieTogetherAreOneLoss) {
  Members some = members(5, 2, 0);
  EXPECT_EQ(some.take({lost(1, 11), lost(2, 12), lost(3, 13)}), Next::GoOn);
  EXPECT_THAT(some.obituary(lost(1, 11)), HasSubstr("; 2 of 5 go on"));
  EXPECT_THAT(some.obituary(lost(3, 13)), HasSubstr("; 2 of 5 go on"));
}

TEST_F(MembersTest, CountOnlyWhenTheyHaveJoined) {
  Members some = members(2, 1, 9);
  EXPECT_EQ(some.take({killed(0)}), Next::GoOn);
  EXPECT_EQ(some.start_one(), 2);
  EXPECT_EQ(some.take({ended(2, 1)}), Next::GoOn);
  EXPECT_THAT(some.obituary(ended(2, 1)), HasSubstr("before it had joined; 1 go on"));
  EXPECT_EQ(some.start_one(), 3) << "no number comes twice";
  joined_.insert(3);
  EXPECT_EQ(some.take({killed(1)}), Next::GoOn) << "3 is left";
  EXPECT_EQ(some.start_one(), 4);
  EXPECT_EQ(some.take({killed(3)}), Next::StartAgain) << "4 has not joined";
  EXPECT_EQ(some.restarts(), "4 of 9") << "single ones and all are counted together";
}

TEST_F(MembersTest, StartOnlyAsOftenAsAllowed) {
  Members some = members(2, 1, 1);
  EXPECT_TRUE(some.may_start());
  (void)some.take({killed(0)});
  (void)some.start_one();
  EXPECT_FALSE(some.may_start());
  EXPECT_EQ(some.take({killed(1)}), Next::Fail);
}

TEST_F(MembersTest, StartAgainWhenOneSaysSo) {
  Members some = members(4, 1, 1);
  EXPECT_EQ(some.take({ended(2, kStartAgainCode)}), Next::StartAgain);
  some.begin(4);
  EXPECT_EQ(some.take({ended(2, kStartAgainCode)}), Next::Fail);
  EXPECT_THAT(some.obituary(ended(2, kStartAgainCode)), HasSubstr("the 3 others cannot go on without it"));
}

TEST_F(MembersTest, AreOverWhenTheLastHasEnded) {
  Members some = members(3, 2, 9);
  EXPECT_EQ(some.take({killed(1)}), Next::GoOn);
  (void)some.start_one();
  EXPECT_EQ(some.take({ended(0, 0)}), Next::GoOn);
  EXPECT_FALSE(some.may_start()) << "the job is ending";
  EXPECT_EQ(some.take({ended(2, 0)}), Next::Over) << "3 only waits";
}

TEST_F(MembersTest, DoNotStartAgainWhenSomeHaveEndedWell) {
  Members some = members(2, 2, 9);
  EXPECT_EQ(some.take({ended(0, 0)}), Next::GoOn);
  EXPECT_EQ(some.take({killed(1)}), Next::Fail);
  Members more = members(3, 2, 9);
  EXPECT_EQ(more.take({ended(0, 0)}), Next::GoOn);
  EXPECT_EQ(more.take({killed(1)}), Next::GoOn);
  EXPECT_EQ(more.take({ended(2, 0)}), Next::Over);
}

// The new member ended without a fault because the job never accepted it. The job of the other members is not done.
TEST_F(MembersTest, ThatNeverJoinedDoNotEndTheJob) {
  Members some = members(2, 1, 9);
  (void)some.take({killed(0)});
  (void)some.start_one();
  EXPECT_EQ(some.take({ended(2, 0)}), Next::GoOn);
  EXPECT_TRUE(some.may_start());
}

TEST_F(MembersTest, CannotMeetWithoutOneThatNeverRan) {
  Members without_host = members(3, 1, 9);
  EXPECT_EQ(without_host.take({lost(2, 0)}), Next::StartAgain);
  Members without_program = members(3, 1, 9);
  EXPECT_EQ(without_program.take({refused(2)}), Next::Fail) << "it will not run the next time either";
  Members joining = members(3, 1, 9);
  (void)joining.take({killed(2)});
  (void)joining.start_one();
  EXPECT_EQ(joining.take({refused(3)}), Next::GoOn);
}

TEST(ElasticVerdict, PrefersACulpritToThoseWhoAskToStartAgain) {
  Verdict elastic(true);
  EXPECT_TRUE(elastic.add(ended(0, kStartAgainCode)));
  EXPECT_FALSE(elastic.add(ended(1, 3)));
  EXPECT_TRUE(elastic.add(ended(2, 7)));
  EXPECT_EQ(elastic.code(), 7);
  Verdict other;
  EXPECT_TRUE(other.add(ended(0, kStartAgainCode)));
  EXPECT_FALSE(other.add(ended(2, 7)));
}

void expect_fit(const std::string& hosts, Size wished, Size fit) {
  const Size found = fitting(parse_hosts(hosts).value(), wished);
  EXPECT_EQ(found.ranks, fit.ranks) << hosts;
  EXPECT_EQ(found.spares, fit.spares) << hosts;
}

TEST(Hosts, TakeRanksBeforeSpares) {
  expect_fit("a,b", {6, 2}, {6, 2});
  expect_fit("a:4,b:4", {6, 2}, {6, 2});
  expect_fit("a:4,b:3", {6, 2}, {6, 1});
  expect_fit("a:4", {6, 2}, {4, 0});
  expect_fit("a:4,b", {6, 2}, {5, 0});
  EXPECT_EQ(fitting({}, {6, 2}).ranks, 0);
}

TEST(Hosts, HaveRoomBySlots) {
  const std::vector<Host> slotted = parse_hosts("a:2,b").value();
  EXPECT_TRUE(has_room(slotted, "a", 1));
  EXPECT_FALSE(has_room(slotted, "a", 2));
  EXPECT_FALSE(has_room(slotted, "b", 1));
  EXPECT_FALSE(has_room(slotted, "c", 0));
  EXPECT_TRUE(has_room(parse_hosts("a,b").value(), "a", 100));
}

TEST(ElasticFolder, IsPrivateAndGoesWithAllThatIsInIt) {
  const test::Folder parent;
  std::string path;
  {
    const ElasticFolder folder = ElasticFolder::make(parent.path()).value();
    path = folder.path();
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0700U);
    EXPECT_FALSE(folder.has_joined(12));
    std::ofstream(path + "/joined-12") << '\n';
    EXPECT_TRUE(folder.has_joined(12));
    EXPECT_FALSE(folder.has_joined(1));
    std::filesystem::create_directories(path + "/a/b");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(std::filesystem::exists(parent.path()));
}

}  // namespace
}  // namespace wreath::launcher
