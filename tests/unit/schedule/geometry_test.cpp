// Parts, shares and tiles cover every count exactly once, in vectors, in blocks and in blocks that vary.
#include "src/schedule/geometry.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

namespace wreath {
namespace {

CallShape vector_of(std::uint64_t count, std::uint32_t element_bytes) {
  return {.collective = Collective::AllReduce,
          .ranks = 8,
          .count = count,
          .input = {},
          .output = {},
          .element_bytes = element_bytes,
          .accumulator_bytes = element_bytes};
}

Geometry vector_geometry(std::uint64_t count, std::uint32_t element_bytes, std::uint32_t parts,
                         std::uint32_t data_lanes, std::uint64_t tile_bytes) {
  return make_geometry(vector_of(count, element_bytes),
                       {.parts = parts, .data_lanes = data_lanes, .tile_bytes = tile_bytes});
}

// Returns where the tiles of `parts` end. Expects that each tile starts where the tile before it ended, and that no
// tile is larger than allowed.
std::uint64_t covered(const Geometry& geometry, Buffer buffer, std::uint32_t first_part, std::uint32_t parts) {
  std::uint64_t next = geometry.range(buffer, first_part, 0, 0).first;
  for (std::uint32_t part = first_part; part < first_part + parts; ++part) {
    for (std::uint32_t lane = 0; lane < geometry.data_lanes; ++lane) {
      std::uint64_t share = 0;
      for (std::uint32_t tile = 0; tile < geometry.tiles; ++tile) {
        const ElementRange range = geometry.range(buffer, part, lane, tile);
        if (range.count == 0) continue;
        EXPECT_EQ(range.first, next);
        EXPECT_LE(range.count, geometry.tile);
        next = range.first + range.count;
        share += range.count;
      }
      EXPECT_EQ(share, geometry.elements(buffer, part, lane));
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
            const Geometry geometry = vector_geometry(count, element_bytes, parts, lanes, tile_bytes);
            EXPECT_EQ(covered(geometry, Buffer::Input, 0, parts), count)
                << element_bytes << " bytes, " << parts << " parts, " << lanes << " lanes, tiles of " << tile_bytes;
          }
        }
      }
    }
  }
}

TEST(Geometry, LeavesTrailingPartsEmptyWhenElementsAreFew) {
  const Geometry geometry = vector_geometry(5, 4, 8, 1, 4096);
  EXPECT_EQ(geometry.range(Buffer::Input, 0, 0, 0).count, 5u) << "a cache line of float32 holds 16";
  for (std::uint32_t part = 1; part < 8; ++part) EXPECT_EQ(geometry.range(Buffer::Output, part, 0, 0).count, 0u);
  EXPECT_EQ(geometry.tiles, 1u);
}

TEST(Geometry, StartsPartsAndSharesAtCacheLines) {
  const Geometry geometry = vector_geometry(1001, 4, 3, 2, 256);
  for (std::uint32_t part = 0; part < 3; ++part) {
    for (std::uint32_t lane = 0; lane < 2; ++lane) {
      EXPECT_EQ(geometry.range(Buffer::Input, part, lane, 0).first * 4 % 64, 0u);
    }
  }
}

TEST(Geometry, EndsInAMisalignedTail) {
  // The parts have 336, 336 and 329 elements, the tiles 64.
  const Geometry geometry = vector_geometry(1001, 4, 3, 1, 256);
  EXPECT_EQ(geometry.tiles, 6u);
  EXPECT_EQ(geometry.range(Buffer::Input, 1, 0, 5).count, 16u);
  EXPECT_EQ(geometry.range(Buffer::Input, 2, 0, 5).count, 9u);
  EXPECT_EQ(geometry.range(Buffer::Input, 2, 0, 5).first + 9, 1001u);
}

TEST(Geometry, HasNoTilesWithoutElements) { EXPECT_EQ(vector_geometry(0, 4, 3, 2, 256).tiles, 0u); }

TEST(Geometry, RoundsTilesToWholeElementsAndNeverToNone) {
  EXPECT_EQ(vector_geometry(10, 8, 1, 1, 20).tile, 2u);
  EXPECT_EQ(vector_geometry(10, 8, 1, 1, 3).tile, 1u);
}

TEST(Geometry, NoMessageIsLargerThanATileWhateverItsFormAndChunks) {
  CallShape shape = vector_of(1 << 20, 2);
  shape.accumulator_bytes = 4;
  for (const bool partial : {false, true}) {
    for (const bool several : {false, true}) {
      for (const int ranks : {1, 3, 8, 100}) {
        shape.ranks = ranks;
        const Geometry geometry = make_geometry(
            shape, {.parts = 8, .tile_bytes = 4096, .partial_messages = partial, .several_parts = several});
        const auto chunks = static_cast<std::uint64_t>(several ? std::min(ranks, kMaximumMessageParts) : 1);
        EXPECT_LE(geometry.tile * chunks * (partial ? 4 : 2), 4096u);
        EXPECT_GT((geometry.tile + 1) * chunks * (partial ? 4 : 2), 4096u);
      }
    }
  }
}

CallShape blocks_of(Collective collective, Rank me, std::uint64_t count) {
  return {.collective = collective,
          .ranks = 5,
          .me = me,
          .count = count,
          .input = {},
          .output = {},
          .element_bytes = 4,
          .accumulator_bytes = 4};
}

TEST(Blocks, LieOneAfterTheOtherWithoutAlignment) {
  const Geometry geometry =
      make_geometry(blocks_of(Collective::AllToAll, 2, 7), {.parts = 5, .data_lanes = 2, .tile_bytes = 12});
  for (const Buffer buffer : {Buffer::Input, Buffer::Output}) {
    EXPECT_EQ(covered(geometry, buffer, 0, 5), 35u);
    EXPECT_EQ(geometry.range(buffer, 3, 0, 0).first, 21u);
  }
  EXPECT_EQ(geometry.tiles, 3u) << "a share is the 7 elements of a cache line, a tile has 3";
}

TEST(Blocks, StartTheBufferThatHoldsOneAlone) {
  for (const Rank me : {0, 3}) {
    const auto own = static_cast<std::uint32_t>(me);
    const Geometry gather = make_geometry(blocks_of(Collective::AllGather, me, 9), {.parts = 5, .tile_bytes = 64});
    EXPECT_EQ(gather.range(Buffer::Input, own, 0, 0).first, 0u);
    EXPECT_EQ(gather.range(Buffer::Output, own, 0, 0).first, own * 9);
    const Geometry scatter = make_geometry(blocks_of(Collective::ReduceScatter, me, 9), {.parts = 5, .tile_bytes = 64});
    EXPECT_EQ(scatter.range(Buffer::Input, own, 0, 0).first, own * 9);
    EXPECT_EQ(scatter.range(Buffer::Output, own, 0, 0).first, 0u);
  }
}

TEST(Blocks, MayVaryInCountAndPlace) {
  const std::array<std::uint64_t, 5> counts{3, 0, 20, 1, 6};
  const std::array<std::uint64_t, 5> offsets{40, 0, 0, 30, 20};
  for (const Rank me : {0, 2}) {
    CallShape shape = blocks_of(Collective::Gather, me, 0);
    shape.input = shape.output = {.counts = counts.data(), .offsets = offsets.data()};
    const Geometry geometry = make_geometry(shape, {.parts = 5, .tile_bytes = 16});
    EXPECT_EQ(geometry.tiles, 5u) << "the largest block may pass through any rank";
    const auto own = static_cast<std::uint32_t>(me);
    EXPECT_EQ(covered(geometry, Buffer::Input, own, 1), counts[own]);
    for (std::uint32_t part = 0; part < 5; ++part) {
      if (counts[part] == 0) continue;
      EXPECT_EQ(geometry.range(Buffer::Output, part, 0, 0).first, offsets[part]);
      EXPECT_EQ(covered(geometry, Buffer::Output, part, 1), offsets[part] + counts[part]);
    }
  }
}

TEST(Blocks, OfAnAllToAllDifferInInputAndOutput) {
  const std::array<std::uint64_t, 5> sent{1, 2, 3, 4, 5}, received{9, 0, 0, 1, 30};
  std::array<std::uint64_t, 5> sent_at{}, received_at{};
  std::exclusive_scan(sent.begin(), sent.end(), sent_at.begin(), std::uint64_t{0});
  std::exclusive_scan(received.begin(), received.end(), received_at.begin(), std::uint64_t{0});
  CallShape shape = blocks_of(Collective::AllToAll, 1, 0);
  shape.input = {.counts = sent.data(), .offsets = sent_at.data()};
  shape.output = {.counts = received.data(), .offsets = received_at.data()};
  const Geometry geometry = make_geometry(shape, {.parts = 5, .tile_bytes = 16});
  EXPECT_EQ(covered(geometry, Buffer::Input, 0, 5), 15u);
  EXPECT_EQ(covered(geometry, Buffer::Output, 0, 5), 40u);
  EXPECT_EQ(geometry.tiles, 8u);
}

TEST(Parts, AreBlocksOrPiecesOfAVector) {
  for (const Collective collective : all_collectives()) {
    const bool one_vector = collective == Collective::AllReduce || collective == Collective::Broadcast ||
                            collective == Collective::Reduce || collective == Collective::Barrier;
    EXPECT_EQ(moves_blocks(collective), !one_vector) << name(collective);
    for (const Buffer buffer : {Buffer::Input, Buffer::Output, Buffer::Scratch, Buffer::Partial}) {
      if (holds_one_block(collective, buffer)) {
        EXPECT_TRUE(moves_blocks(collective)) << name(collective);
        EXPECT_FALSE(is_lanes_own(buffer));
      }
    }
  }
}

}  // namespace
}  // namespace wreath
