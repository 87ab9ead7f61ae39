// The processor and its near cache decide from which size on buffers are read where they lie.
#include "src/tuner/read_in_place.hpp"

#include <gtest/gtest.h>

namespace wreath {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

TEST(ReadInPlace, BeginsAtAQuarterOfTheNearCacheOnIntel) {
  EXPECT_EQ(read_in_place_bytes("GenuineIntel", 2 * kMebibyte), kMebibyte / 2);
  EXPECT_EQ(read_in_place_bytes("GenuineIntel", kMebibyte), kMebibyte / 4);
  EXPECT_EQ(read_in_place_bytes("GenuineIntel", 64 * kMebibyte), 2 * kMebibyte) << "no later than elsewhere";
}

TEST(ReadInPlace, BeginsAtTwoMebibytesElsewhere) {
  EXPECT_EQ(read_in_place_bytes("AuthenticAMD", kMebibyte), 2 * kMebibyte);
  EXPECT_EQ(read_in_place_bytes("GenuineIntel", 0), 2 * kMebibyte) << "no cache is known";
}

}  // namespace
}  // namespace wreath
