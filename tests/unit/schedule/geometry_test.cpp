// Parts, shares and tiles cover every count exactly once.
#include "src/schedule/geometry.hpp"

#include <gtest/gtest.h>

namespace wreath {
namespace {

std::uint64_t covered(const Geometry& geometry, std::uint32_t parts, std::uint32_t data_lanes) {
  std::uint64_t next = 0;
  for (std::uint32_t part = 0; part < parts; ++part) {
    for (std::uint32_t lane = 0; lane < data_lanes; ++lane) {
      for (std::uint32_t tile = 0; tile < geometry.tiles; ++tile) {
        const ElementRange range = geometry.range(part, lane, tile);
        if (range.count == 0) continue;
        EXPECT_EQ(range.first, next);
        EXPECT_LE(range.count, geometry.tile);
        next = range.first + range.count;
      }
    }
  }
  return next;
}

TEST(Geometry, CoversEveryCountWithoutGapOrOverlap) {
  for (const std::uint32_t element_bytes : {1u, 2u, 4u, 8u, 64u}) {
    for (const std::uint32_t parts : {1u, 2u, 3u, 7u, 64u}) {
      for (const std::uint32_t lanes : {1u, 2u, 3u, 5u}) {
        for (const std::uint64_t count : {0u, 1u, 2u, 6u, 63u, 64u, 65u, 1000u, 4099u}) {
          for (const std::uint64_t tile_bytes : {64u, 100u, 4096u}) {
            const Geometry geometry = make_geometry(count, element_bytes, parts, lanes, tile_bytes);
            EXPECT_EQ(covered(geometry, parts, lanes), count)
                << element_bytes << " bytes, " << parts << " parts, " << lanes << " lanes, tiles of " << tile_bytes;
          }
        }
      }
    }
  }
}

TEST(Geometry, LeavesTrailingPartsEmptyWhenElementsAreFew) {
  const Geometry geometry = make_geometry(5, 4, 8, 1, 4096);
  EXPECT_EQ(geometry.range(0, 0, 0).count, 5u) << "a cache line of float32 holds 16";
  for (std::uint32_t part = 1; part < 8; ++part) EXPECT_EQ(geometry.range(part, 0, 0).count, 0u);
  EXPECT_EQ(geometry.tiles, 1u);
}

TEST(Geometry, StartsPartsAndSharesAtCacheLines) {
  const Geometry geometry = make_geometry(1001, 4, 3, 2, 256);
  for (std::uint32_t part = 0; part < 3; ++part) {
    for (std::uint32_t lane = 0; lane < 2; ++lane) EXPECT_EQ(geometry.range(part, lane, 0).first * 4 % 64, 0u);
  }
}

TEST(Geometry, EndsInAMisalignedTail) {
  const Geometry geometry = make_geometry(1001, 4, 3, 1, 256);  // parts of 336, 336 and 329; tiles of 64
  EXPECT_EQ(geometry.tiles, 6u);
  EXPECT_EQ(geometry.range(1, 0, 5).count, 16u);
  EXPECT_EQ(geometry.range(2, 0, 5).count, 9u);
  EXPECT_EQ(geometry.range(2, 0, 5).first + 9, 1001u);
}

TEST(Geometry, HasNoTilesWithoutElements) { EXPECT_EQ(make_geometry(0, 4, 3, 2, 256).tiles, 0u); }

TEST(Geometry, RoundsTilesToWholeElementsAndNeverToNone) {
  EXPECT_EQ(make_geometry(10, 8, 1, 1, 20).tile, 2u);
  EXPECT_EQ(make_geometry(10, 8, 1, 1, 3).tile, 1u);
}

}  // namespace
}  // namespace wreath
