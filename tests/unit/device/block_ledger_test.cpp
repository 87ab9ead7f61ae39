// Tests the ledger of a device's blocks: it rings a waiter when the waiter's turn may have come.
#include "src/device/block_ledger.hpp"

#include <gtest/gtest.h>

namespace wreath {
namespace {

struct Waiter {
  int rung = 0;
  BlockLedger::Ring ring = [this] { ++rung; };
};

TEST(BlockLedger, GrantsNoMoreThanRunAtOnceInTheOrderOfAsking) {
  BlockLedger ledger;
  Waiter first;
  Waiter second;
  Waiter third;
  EXPECT_EQ(ledger.take(first.ring, 9, 8), 8);
  EXPECT_EQ(ledger.take(second.ring, 8, 8), 0);
  EXPECT_EQ(ledger.take(third.ring, 1, 8), 0);
  ledger.give_back(8);
  EXPECT_EQ(second.rung, 1);
  EXPECT_EQ(ledger.take(third.ring, 1, 8), 0);
  EXPECT_EQ(ledger.take(second.ring, 8, 8), 8);
  EXPECT_TRUE(ledger.crowded());
}

// Peers may wait for the next in line, so it must not sleep until they give their blocks back.
TEST(BlockLedger, RingsTheNextInLineForBlocksThatTheFirstLeft) {
  BlockLedger ledger;
  Waiter first;
  Waiter second;
  Waiter third;
  EXPECT_EQ(ledger.take(first.ring, 8, 8), 8);
  EXPECT_EQ(ledger.take(second.ring, 4, 8), 0);
  EXPECT_EQ(ledger.take(third.ring, 4, 8), 0);
  ledger.give_back(8);
  EXPECT_EQ(ledger.take(second.ring, 4, 8), 4);
  EXPECT_EQ(third.rung, 1);
  EXPECT_EQ(ledger.take(third.ring, 4, 8), 4);
  EXPECT_FALSE(ledger.crowded());
}

TEST(BlockLedger, RingsTheNextWhereTheFirstLeavesTheLine) {
  BlockLedger ledger;
  Waiter first;
  Waiter second;
  Waiter third;
  EXPECT_EQ(ledger.take(first.ring, 4, 8), 4);
  EXPECT_EQ(ledger.take(second.ring, 8, 8), 0);
  EXPECT_EQ(ledger.take(third.ring, 4, 8), 0);
  ledger.leave(second.ring);
  EXPECT_EQ(third.rung, 1);
  EXPECT_EQ(ledger.take(third.ring, 4, 8), 4);
}

}  // namespace
}  // namespace wreath
