// Memory that cannot be had is an error, which says how much it is and what it is for. Freed blocks are kept, within
// bounds.
#include "training/compute/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

#include "tests/support/processes.hpp"

namespace wreath::training {
namespace {

TEST(Memory, ThatCannotBeHadIsNamed) {
  if (testing_support::kSanitized) GTEST_SKIP() << "a sanitizer's allocator ends the process: run it in the preset dev";
  MemoryAccounting accounting;
  constexpr std::size_t kBytes = std::size_t{1} << 46;
  std::string told;
  try {
    const Buffer<char> buffer(accounting, MemoryTag::Activations, kBytes, Contents::Undefined);
  } catch (const std::bad_alloc& failure) {
    told = failure.what();
  }
  EXPECT_EQ(told, "memory: 65536.0 GiB for activations cannot be had");
  EXPECT_EQ(accounting.bytes(MemoryTag::Activations), 0u);
}

TEST(BlockPool, GivesABlockOutAgainForTheSameSizeAlone) {
  BlockPool pool;
  void* const first = pool.take(1 << 20);
  pool.give(first, 1 << 20);
  EXPECT_EQ(pool.free_bytes(), 1u << 20);
  EXPECT_EQ(pool.take(1 << 20), first);
  EXPECT_EQ(pool.free_bytes(), 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
  pool.give(first, 1 << 20);
}

// Blocks of many sizes are taken and freed. No more memory stays behind than was in use at once.
TEST(BlockPool, HoldsNoMoreThanWasInUseAtOnce) {
  constexpr std::size_t kBlock = 64 << 10;
  BlockPool pool;
  const std::size_t all = 20 * kBlock;
  void* const whole = pool.take(all);
  pool.give(whole, all);
  for (std::size_t size = kBlock; size < all; size += kBlock) {
    void* const one = pool.take(size);
    EXPECT_LE(size + pool.free_bytes(), all) << size;
    pool.give(one, size);
    EXPECT_LE(pool.free_bytes(), all) << size;
  }
  EXPECT_EQ(pool.peak_bytes(), all);
}

// The blocks that were free for longest are freed first.
TEST(BlockPool, KeepsTheBlocksThatWereUsedLast) {
  constexpr std::size_t kOld = 1 << 20, kYoung = 2 << 20, kNew = 3 << 20;
  BlockPool pool;
  void* const old = pool.take(kOld);
  void* const young = pool.take(kYoung);
  pool.give(old, kOld);
  pool.give(young, kYoung);
  void* const other = pool.take(kOld / 2);
  EXPECT_EQ(pool.free_bytes(), kYoung);
  EXPECT_EQ(pool.take(kYoung), young);
  pool.give(young, kYoung);
  pool.give(other, kOld / 2);
  pool.give(pool.take(kNew), kNew);
}

TEST(Memory, FreedBuffersAreKeptForTheNext) {
  MemoryAccounting accounting;
  const float* first = nullptr;
  for (int turn = 0; turn < 3; ++turn) {
    const Buffer<float> buffer(accounting, MemoryTag::Workspace, 100'000);
    if (turn == 0) first = buffer.data();
    EXPECT_EQ(buffer.data(), first);
    EXPECT_EQ(buffer[99'999], 0.0f);
    buffer[99'999] = 1;
  }
  EXPECT_EQ(accounting.bytes(MemoryTag::Workspace), 0u);
  EXPECT_EQ(accounting.pool().free_bytes(), 400'000u);
}

}  // namespace
}  // namespace wreath::training
