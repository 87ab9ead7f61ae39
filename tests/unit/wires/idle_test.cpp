// Tests the turns that wires get between calls: at once where they need progress, else seldom, and none without words.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"
#include "tests/unit/wires/double.hpp"

namespace wreath::test {
namespace {

using namespace std::chrono_literals;

class IdleWire : public testing::Test {
 protected:
  IdleWire() { reset_adapters(); }
  static LocalRanks linked() { return {2, CommunicatorOptions()}; }
  static void call(LocalRanks& ranks) {
    ranks.run([](Communicator& own) {
      std::vector<float> data(100'000, 1.0F);
      EXPECT_TRUE(own.all_reduce(std::span(data)));
    });
  }
  // Ends the wire of rank 0, and waits until a turn has found that.
  static void end_wire() {
    const std::uint64_t before = adapter_of(0).rounds;
    adapter_of(0).ended = true;
    for (int i = 0; i < 10'000 && adapter_of(0).rounds == before; ++i) std::this_thread::sleep_for(1ms);
  }
  // Returns how many turns rank 1 has in a second and a half.
  static std::uint64_t turns() {
    std::this_thread::sleep_for(100ms);
    const std::uint64_t before = adapter_of(1).rounds;
    std::this_thread::sleep_for(1500ms);
    return adapter_of(1).rounds - before;
  }

  RecordingsFolder recordings_;
};

// The peer's adapter may have lost a message of a call that is over.
TEST_F(IdleWire, GetsATurnFourTimesASecond) {
  LocalRanks ranks = linked();
  EXPECT_GE(turns(), 2U);
  call(ranks);
  const std::uint64_t after_a_call = turns();
  EXPECT_GE(after_a_call, 2U);
  EXPECT_LE(after_a_call, 40U) << "it needs no more";
}

// In the seldom turns alone this would take minutes.
TEST_F(IdleWire, ThatIsBlockedGetsTurnsUntilItIsNot) {
  LocalRanks ranks = linked();
  adapter_of(1).blocked_rounds = 1'000;
  for (int i = 0; i < 10'000 && adapter_of(1).blocked_rounds > 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(adapter_of(1).blocked_rounds, 0);
}

// A seldom turn that finds the need comes too late in most of these tries.
TEST_F(IdleWire, ThatNeedsProgressGetsTurnsFromTheEndOfTheCallOn) {
  LocalRanks ranks = linked();
  for (int i = 0; i < 6; ++i) {
    adapter_of(1).needed_rounds = 1'000'000;
    call(ranks);
    const std::uint64_t before = adapter_of(1).rounds;
    std::this_thread::sleep_for(60ms);
    EXPECT_GT(adapter_of(1).rounds, before + 10) << "try " << i;
    adapter_of(1).needed_rounds = 0;
    std::this_thread::sleep_for(300ms);
  }
}

TEST_F(IdleWire, WithoutWordsIsNeitherAskedNorMoved) {
  for (const int rank : {0, 1}) adapter_of(rank).speaks = false;
  adapter_of(1).needed_rounds = 1'000'000;
  LocalRanks ranks = linked();
  for (int i = 0; i < 3; ++i) call(ranks);
  EXPECT_EQ(turns(), 0U);
  EXPECT_EQ(adapter_of(1).questions, 0U);
}

// The goodbye comes over another connection, and may come after the end of the wire.
TEST_F(IdleWire, ThatEndsBeforeThePeersGoodbyeFailsNothing) {
  LocalRanks ranks = linked();
  call(ranks);
  end_wire();
  const Communicator& staying = ranks.communicators()[0];
  EXPECT_TRUE(staying.error());
  { const Communicator leaving = std::move(ranks.communicators()[1]); }
  std::this_thread::sleep_for(1500ms);
  EXPECT_TRUE(staying.error()) << staying.error().error().message;
}

TEST_F(IdleWire, ThatEndsWithoutAGoodbyeFailsTheCommunicatorAfterASecond) {
  LocalRanks ranks = linked();
  call(ranks);
  const std::int64_t before = now_ns();
  end_wire();
  const Communicator& staying = ranks.communicators()[0];
  for (int i = 0; i < 10'000 && staying.error(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_GE(now_ns() - before, 1'000 * kNsPerMs);
  ASSERT_FALSE(staying.error());
  EXPECT_EQ(staying.error().error().code, ErrorCode::PeerLost);
  EXPECT_EQ(staying.error().error().failed_rank, 1);
  EXPECT_THAT(staying.error().error().message, testing::HasSubstr("has closed the double adapter's wire"));
}

// A call that begins meanwhile waits no longer than that for the peer.
TEST_F(IdleWire, ThatEndsWithoutAGoodbyeFailsTheNextCall) {
  LocalRanks ranks = linked();
  end_wire();
  const std::int64_t before = now_ns();
  std::vector<float> data(100'000, 1.0F);
  const Status called = ranks.communicators()[0].all_reduce(std::span(data));
  EXPECT_LT(now_ns() - before, 5'000 * kNsPerMs);
  ASSERT_FALSE(called);
  EXPECT_EQ(called.error().code, ErrorCode::PeerLost);
}

// A wire that is gone needs nothing, and nobody looks whether it does.
TEST_F(IdleWire, GetsNoTurnsAfterAFailure) {
  LocalRanks ranks = linked();
  adapter_of(1).needed_rounds = 1'000'000;
  call(ranks);
  EXPECT_TRUE(ranks.communicators()[0].abort());
  rusage before{};
  ::getrusage(RUSAGE_SELF, &before);
  EXPECT_EQ(turns(), 0U);
  rusage after{};
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_nvcsw - before.ru_nvcsw, 40) << "sleeps of all threads";
}

}  // namespace
}  // namespace wreath::test
