// Memory that cannot be had: the error says how much and what for.
#include "training/memory/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace wreath::training
