// Tests what ranks tell of their turns on a core, and whether these fill it.
#include "src/engine/turns.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "src/base/cpu.hpp"
#include "src/base/memory_order.hpp"
#include "src/fifo/segment.hpp"
#include "tests/support/control_segments.hpp"
#include "tests/support/local_ranks.hpp"
#include "tests/support/on_one_core.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath {
namespace {

constexpr std::uint64_t kUnit = 1024;
constexpr std::uint32_t kInTurn = 1;

// Three ranks wait on this thread's core; the first one is this rank. A fourth waits on another core.
class ThreeTurns : public testing::Test {
 protected:
  ThreeTurns() {
    std::vector<CoreUser> users;
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const bool elsewhere = i == 3;
      cores_[i].value = on_one_core_.core() + (elsewhere ? 2 : 1);
      users.push_back({&cores_[i], &kept_[i]});
    }
    turns_ = Turns(&kept_[0], std::move(users));
    // From here on this test tells the time.
    turns_.fill_core(now_);
  }

  // Lets so many units pass.
  bool fill_core_after(std::uint64_t units) { return turns_.fill_core(now_ += units * kUnit); }

  const test::OnOneCore on_one_core_;
  std::vector<Counter> cores_{4};
  std::vector<Counter> kept_{4};
  Turns turns_;
  std::uint64_t now_ = cycle_count();
};

TEST_F(ThreeTurns, FillTheCoreFromHalfOfTheTimeOn) {
  kept_[1].value += 30;
  kept_[2].value += 20;
  EXPECT_TRUE(fill_core_after(100));
  kept_[1].value += 30;
  kept_[2].value += 18;
  EXPECT_FALSE(fill_core_after(100));
}

TEST_F(ThreeTurns, CountOnceEach) {
  kept_[1].value += 100;
  EXPECT_TRUE(fill_core_after(100));
  EXPECT_FALSE(fill_core_after(100));
}

TEST_F(ThreeTurns, AreMeasuredByTheTimeSinceTheLastLook) {
  EXPECT_FALSE(fill_core_after(1000));
  kept_[1].value += 60;
  EXPECT_TRUE(fill_core_after(100));
}

TEST_F(ThreeTurns, CountOnThisCoreAlone) {
  kept_[3].value += 100;
  EXPECT_FALSE(fill_core_after(100));
  kept_[3].value += 100;
  cores_[3].value = cores_[0].value;
  EXPECT_TRUE(fill_core_after(100));
}

TEST_F(ThreeTurns, MayWrap) {
  kept_[1].value = 0xffff'fff0U;
  fill_core_after(1);
  kept_[1].value += 60;
  EXPECT_LT(kept_[1].value, 60U);
  EXPECT_TRUE(fill_core_after(100));
}

TEST_F(ThreeTurns, FillTheCoreWhereOneOfThemIsNotOver) {
  kept_[1].value += kInTurn;
  EXPECT_TRUE(fill_core_after(1'000'000)) << "the rank was interrupted at work";
  EXPECT_TRUE(fill_core_after(1'000'000));
  kept_[1].value -= kInTurn;
  EXPECT_FALSE(fill_core_after(1'000'000));
  kept_[3].value += kInTurn;
  EXPECT_FALSE(fill_core_after(1'000'000)) << "it has another core";
  turns_.begin(now_);
  EXPECT_FALSE(fill_core_after(1'000'000)) << "this rank's turn keeps nobody waiting";
}

TEST_F(ThreeTurns, OfThisRankAreToldInUnits) {
  turns_.end(5 * kUnit);
  EXPECT_EQ(kept_[0].value, 0U) << "no turn had begun";
  turns_.begin(10 * kUnit);
  EXPECT_EQ(kept_[0].value, kInTurn);
  turns_.end(13 * kUnit);
  EXPECT_EQ(kept_[0].value, 2U) << "the lowest bit is not a unit";
  turns_.begin(20 * kUnit);
  EXPECT_EQ(kept_[0].value, 2U + kInTurn);
  turns_.end(21 * kUnit);
  EXPECT_EQ(kept_[0].value, 4U) << "parts add up";
}

TEST_F(ThreeTurns, EndWithASleep) {
  turns_.begin(10 * kUnit);
  turns_.end(12 * kUnit);
  turns_.end(15 * kUnit);
  EXPECT_EQ(kept_[0].value, 2U) << "a sleep is no turn";
  turns_.wake(20 * kUnit);
  turns_.end(22 * kUnit);
  EXPECT_EQ(kept_[0].value, 4U);
}

TEST_F(ThreeTurns, BeforeASleepDoNotCountAfterIt) {
  kept_[1].value += 1000;
  turns_.wake(now_ += 1000 * kUnit);
  EXPECT_FALSE(fill_core_after(100));
  turns_.wake(now_ += 1000 * kUnit);
  kept_[1].value += 50;
  EXPECT_TRUE(fill_core_after(100)) << "the time of the sleep does not count, either";
}

TEST(Turns, OfRanksThatShareACoreAreInTheirSegments) {
  const test::Environment one_core{{{"WREATH_HOST_CORES", "1"}}};
  CommunicatorOptions options;
  options.transports = {"shm"};
  test::LocalRanks ranks(3, options);
  ranks.run([](Communicator& communicator) {
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(communicator.barrier());
  });
  const std::vector<std::byte*> segments = test::own_control_segments();
  ASSERT_EQ(segments.size(), 3U);
  for (const std::byte* segment : segments) {
    EXPECT_GT(load_relaxed(reinterpret_cast<const SegmentPrologue*>(segment)->kept.value), 0U);
  }
}

TEST(Turns, OfNobodyFillNothing) { EXPECT_FALSE(Turns().fill_core(0)); }

}  // namespace
}  // namespace wreath
