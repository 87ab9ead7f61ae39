// Tests that one call and one driver run at a time, whichever way a call begins.
#include "src/engine/call_gate.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace wreath {
namespace {

TEST(CallGate, LetsNobodyInDuringAQuickCall) {
  CallGate gate;
  ASSERT_TRUE(gate.try_quick());
  EXPECT_FALSE(gate.try_lock());
  EXPECT_FALSE(gate.try_quick());
  EXPECT_FALSE(gate.try_drive());
  gate.end_drive();
  EXPECT_TRUE(gate.try_lock()) << "who was refused has left nothing behind";
}

TEST(CallGate, BeginsNoQuickCallDuringAnother) {
  CallGate gate;
  ASSERT_TRUE(gate.try_lock());
  EXPECT_FALSE(gate.try_quick());
  EXPECT_TRUE(gate.try_drive()) << "the token was given back";
  gate.end_drive();
  gate.unlock();
  EXPECT_TRUE(gate.try_quick());
}

TEST(CallGate, LetsTheProgressThreadDriveDuringACall) {
  CallGate gate;
  ASSERT_TRUE(gate.try_drive());
  EXPECT_TRUE(gate.try_lock());
  EXPECT_FALSE(gate.try_quick());
}

TEST(CallGate, KeepsThreadsApart) {
  CallGate gate;
  // Counts the threads inside, of either way. It is a plain integer, since the gate guards it.
  int inside = 0;
  std::vector<std::thread> threads;
  for (const bool quick : {true, false, true, false}) {
    threads.emplace_back([&gate, &inside, quick] {
      for (int i = 0; i < 20'000; ++i) {
        if (!(quick ? gate.try_quick() : gate.try_lock())) continue;
        EXPECT_EQ(++inside, 1);
        --inside;
        quick ? gate.end_drive() : gate.unlock();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace wreath
