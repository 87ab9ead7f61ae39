// Tests the checksum of data that may have been altered on its way.
#include "src/base/hash.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace wreath {
namespace {

std::vector<std::byte> random_bytes(std::size_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(Checksum, ChangesWithEveryBit) {
  for (std::size_t size = 0; size < 100; ++size) {
    const std::vector<std::byte> good = random_bytes(size);
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      std::vector<std::byte> bad = good;
      bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      ASSERT_NE(checksum(bad), checksum(good)) << size << " bytes, bit " << bit;
    }
  }
}

// The checksum differs between zeros of different lengths, and between bytes that have changed places.
TEST(Checksum, KnowsLengthsAndPlaces) {
  std::set<std::uint64_t> sums;
  for (std::size_t size = 0; size < 200; ++size) sums.insert(checksum(std::vector<std::byte>(size)));
  for (std::size_t at = 0; at < 200; ++at) {
    std::vector<std::byte> bytes(200);
    bytes[at] = std::byte{1};
    sums.insert(checksum(bytes));
  }
  EXPECT_EQ(sums.size(), 400U);
}

}  // namespace
}  // namespace wreath
