// The three copies move exactly the bytes asked for, at any size and alignment.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "kernels/kernels.hpp"

namespace wreath::copying {
namespace {

void expect_copies(CopyKernel copy, std::size_t bytes, std::size_t target_offset, std::size_t source_offset) {
  constexpr std::byte kGuard{0xa5};
  std::vector<std::byte> source(source_offset + bytes + 1);  // never null
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 31 + (i >> 8));
  std::vector<std::byte> expected(target_offset + bytes + 64, kGuard);
  std::vector<std::byte> actual = expected;
  for (std::size_t i = 0; i < bytes; ++i) expected[target_offset + i] = source[source_offset + i];
  copy(actual.data() + target_offset, source.data() + source_offset, bytes);
  ASSERT_EQ(actual, expected) << bytes << " bytes, target + " << target_offset << ", source + " << source_offset;
}

class EachCopy : public testing::TestWithParam<CopyKernel CopyKernels::*> {};

TEST_P(EachCopy, MovesExactlyItsBytes) {
  const CopyKernel copy = copy_kernels().*GetParam();
  for (std::size_t bytes = 0; bytes <= 700; ++bytes) {
    ASSERT_NO_FATAL_FAILURE(expect_copies(copy, bytes, bytes % 67, bytes % 13));
  }
  for (const std::size_t bytes : {1023u, 1024u, 1025u, 4096u, 65537u, 1u << 20}) {
    for (const std::size_t offset : {0u, 1u, 63u, 64u}) {
      ASSERT_NO_FATAL_FAILURE(expect_copies(copy, bytes, offset, 0));
      ASSERT_NO_FATAL_FAILURE(expect_copies(copy, bytes, 0, offset));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Copy, EachCopy,
                         testing::Values(&CopyKernels::plain, &CopyKernels::fill, &CopyKernels::stream));

}  // namespace
}  // namespace wreath::copying
