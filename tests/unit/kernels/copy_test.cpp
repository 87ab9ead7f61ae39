// Tests that all copies move exactly the bytes asked for, at any size and alignment.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <tuple>
#include <vector>

#include "kernels/kernels.hpp"
#include "tests/support/walled_memory.hpp"

namespace wreath::copying {
namespace {

void expect_copies(CopyKernel copy, std::size_t bytes, std::size_t target_offset, std::size_t source_offset) {
  constexpr std::byte kGuard{0xa5};
  // The address is never null.
  std::vector<std::byte> source(source_offset + bytes + 1);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 31 + (i >> 8));
  std::vector<std::byte> expected(target_offset + bytes + 64, kGuard);
  std::vector<std::byte> actual = expected;
  for (std::size_t i = 0; i < bytes; ++i) expected[target_offset + i] = source[source_offset + i];
  copy(actual.data() + target_offset, source.data() + source_offset, bytes);
  ASSERT_EQ(actual, expected) << bytes << " bytes, target + " << target_offset << ", source + " << source_offset;
}

using EachCopyParam = std::tuple<const char*, CopyKernel CopyKernels::*>;
class EachCopy : public testing::TestWithParam<EachCopyParam> {
 protected:
  static CopyKernel copy() { return copy_kernels_of(std::get<0>(GetParam())).*std::get<1>(GetParam()); }
};

TEST_P(EachCopy, MovesExactlyItsBytes) {
  const CopyKernel copy = EachCopy::copy();
  for (std::size_t bytes = 0; bytes <= 700; ++bytes) {
    ASSERT_NO_FATAL_FAILURE(expect_copies(copy, bytes, bytes % 67, bytes % 13));
  }
  for (const std::size_t bytes :
       {1023u, 1024u, 1025u, 4096u, 65535u, 65536u, 65537u, 81920u, 131072u, 131073u, 1u << 20}) {
    for (const std::size_t offset : {0u, 1u, 63u, 64u}) {
      ASSERT_NO_FATAL_FAILURE(expect_copies(copy, bytes, offset, 0));
      ASSERT_NO_FATAL_FAILURE(expect_copies(copy, bytes, 0, offset));
    }
  }
}

TEST_P(EachCopy, TouchesNoByteBeyondItsBuffers) {
  const CopyKernel copy = EachCopy::copy();
  std::vector<std::size_t> sizes{16384, 16447, 65536, 65537, 81919};
  for (std::size_t bytes = 0; bytes <= 700; ++bytes) sizes.push_back(bytes);
  for (const test::Wall wall : {test::Wall::Before, test::Wall::After}) {
    for (const std::size_t bytes : sizes) {
      const test::WalledMemory source(bytes, wall);
      const test::WalledMemory target(bytes, wall);
      for (std::size_t i = 0; i < bytes; ++i) source.data()[i] = static_cast<std::byte>(i * 31 + 1);
      copy(target.data(), source.data(), bytes);
      ASSERT_EQ(0, std::memcmp(target.data(), source.data(), bytes)) << bytes << " bytes";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(CopyByPages, EachCopy,
                         testing::Values(EachCopyParam{"GenuineIntel", &CopyKernels::fill_pages}));
INSTANTIATE_TEST_SUITE_P(Copy, EachCopy,
                         testing::Combine(testing::Values("GenuineIntel", "AuthenticAMD"),
                                          testing::Values(&CopyKernels::plain, &CopyKernels::fill,
                                                          &CopyKernels::stream)));

}  // namespace
}  // namespace wreath::copying
