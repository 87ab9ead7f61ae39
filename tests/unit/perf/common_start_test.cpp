// A call that is timed alone begins at one instant on ranks with a core each, and elsewhere once all have come.
#include "perf/common/common_start.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "perf/base/machine.hpp"
#include "tests/unit/perf/threads.hpp"

namespace wreath::perf {
namespace {

using Clock = CommonStart::Clock;

// The times that two ranks saw in one wait.
struct Seen {
  std::array<Clock::time_point, 2> entered;
  std::array<Clock::time_point, 2> said;
  std::array<Clock::time_point, 2> left;
};

// Lets two ranks wait together, each on a core of `cores`. One rank comes late, each in turn.
std::vector<Seen> wait_together(std::array<int, 2> cores) {
  std::vector<Seen> list(6);
  on_ranks(2, {}, 0, [&](Member& member) {
    const auto rank = static_cast<std::size_t>(member.rank());
    pin_thread(cores[rank]);
    CommonStart start(member);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i % 2 == rank) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      list[i].entered[rank] = Clock::now();
      const auto said = start.wait();
      list[i].left[rank] = Clock::now();
      ASSERT_TRUE(said);
      list[i].said[rank] = *said;
    }
  });
  return list;
}

TEST(CommonStart, IsOneInstantOnCoresOfTheirOwn) {
  const std::vector<int> cores = allowed_cores();
  if (cores.size() < 2) GTEST_SKIP() << "there is one core: run it on two";
  for (const Seen& seen : wait_together({cores[0], cores[1]})) {
    EXPECT_EQ(seen.said[0], seen.said[1]);
    EXPECT_GT(seen.said[0], std::max(seen.entered[0], seen.entered[1]));
    EXPECT_LE(seen.said[0], std::min(seen.left[0], seen.left[1]));
  }
}

TEST(CommonStart, LetsOthersEndTheirCallBeforeRanksMeet) {
  const std::vector<int> cores = allowed_cores();
  if (cores.size() < 2) GTEST_SKIP() << "there is one core: run it on two";
  const std::vector<Seen> list = wait_together({cores[0], cores[1]});
  for (std::size_t i = 1; i < list.size(); ++i) {
    const Clock::time_point last = std::max(list[i].entered[0], list[i].entered[1]);
    // The late rank spent longer than ranks are quiet at most.
    EXPECT_GE(list[i].said[0], last + std::chrono::microseconds(100));
  }
}

TEST(CommonStart, IsEachRanksOwnWhereRanksShareACore) {
  const int core = allowed_cores().front();
  for (const Seen& seen : wait_together({core, core})) {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_GE(seen.said[rank], std::max(seen.entered[0], seen.entered[1]));
      EXPECT_LE(seen.said[rank], seen.left[rank]);
    }
  }
}

}  // namespace
}  // namespace wreath::perf
