// Tests that a thread that asks for short turns stays an ordinary thread.
#include "src/base/slice.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

namespace wreath {
namespace {

TEST(ShortTurns, LeavePolicyAndNiceAsTheyAre) {
  const int policy = ::sched_getscheduler(0);
  const int nice = ::getpriority(PRIO_PROCESS, 0);
  ask_for_short_turns();
  EXPECT_EQ(::sched_getscheduler(0), policy);
  EXPECT_EQ(::getpriority(PRIO_PROCESS, 0), nice);
}

}  // namespace
}  // namespace wreath
