// A call's elements are cut into parts of a buffer, a data lane's share of a part, and tiles of a share.
#pragma once

#include <cstdint>

#include "wreath/schedule.hpp"

namespace wreath {

struct ElementRange {
  std::uint64_t first;
  std::uint64_t count;
};

// The places of the parts of one caller's buffer, in elements. Equal parts lie `stride` apart, and the last ones are
// cut off at `total`. Blocks that vary are in tables. `origin` is where the buffer starts: at the one part that it
// holds, else 0.
struct PartTable {
  std::uint64_t total = 0;
  std::uint64_t stride = 0;
  std::uint64_t origin = 0;
  const std::uint64_t* counts = nullptr;   // by part; null for equal parts
  const std::uint64_t* offsets = nullptr;  // of the first element, by part

  constexpr ElementRange part(std::uint32_t part) const {
    if (counts != nullptr) return {offsets[part] - origin, counts[part]};
    const std::uint64_t first = part * stride < total ? part * stride : total;
    const std::uint64_t count = total - first < stride ? total - first : stride;
    return {first - origin, count};
  }
};

// A lane cannot count so many tiles, so a call that needs them cannot be made.
inline constexpr std::uint32_t kTooManyTiles = 0xFFFFFFFF;

// One rank's view of one call. It is made from the call's counts and the plan alone.
struct Geometry {
  PartTable input;
  PartTable output;
  std::uint64_t tile = 1;  // elements of a full tile
  // Parts of so many elements and more have tiles of large_tile.
  std::uint64_t large_part = ~std::uint64_t{0};
  std::uint64_t large_tile = 1;
  // The tiles of every lane. Where a part has fewer, lines do nothing.
  std::uint32_t tiles = 0;
  std::uint32_t data_lanes = 1;
  // The elements of 64 bytes, at least 1. Shares start at multiples of it.
  std::uint32_t line = 1;
  std::uint32_t element_bytes = 1;
  std::uint32_t accumulator_bytes = 1;

  constexpr std::uint32_t bytes_of(Form form) const { return form == Form::Data ? element_bytes : accumulator_bytes; }
  // Returns the elements of (part, data lane, tile). In Input or Output they count from the start of the buffer. In
  // Scratch and Partial only the count means something.
  constexpr ElementRange range(Buffer buffer, std::uint32_t part, std::uint32_t data_lane,
                               std::uint32_t tile_index) const {
    const ElementRange whole = (buffer == Buffer::Output ? output : input).part(part);
    const std::uint64_t stride = data_lanes == 1 ? whole.count : share(whole.count);
    const std::uint64_t share_first = smaller(data_lane * stride, whole.count);
    const std::uint64_t share_end = smaller(share_first + stride, whole.count);
    const std::uint64_t full = tile_of(whole.count);
    const std::uint64_t first = smaller(share_first + tile_index * full, share_end);
    return {whole.first + first, smaller(first + full, share_end) - first};
  }
  // Returns the elements of a full tile of a part with so many elements.
  constexpr std::uint64_t tile_of(std::uint64_t count) const { return count < large_part ? tile : large_tile; }
  // Returns the number of elements of (part, data lane) in all tiles.
  constexpr std::uint64_t elements(Buffer buffer, std::uint32_t part, std::uint32_t data_lane) const {
    const std::uint64_t count = (buffer == Buffer::Output ? output : input).part(part).count;
    const std::uint64_t stride = data_lanes == 1 ? count : share(count);
    const std::uint64_t first = smaller(data_lane * stride, count);
    return smaller(first + stride, count) - first;
  }
  // Returns the number of them in the tiles behind this one.
  constexpr std::uint64_t elements_behind(Buffer buffer, std::uint32_t part, std::uint32_t data_lane,
                                          std::uint32_t tile_index) const {
    const std::uint64_t count = (buffer == Buffer::Output ? output : input).part(part).count;
    const std::uint64_t all = elements(buffer, part, data_lane);
    return all - smaller((std::uint64_t{tile_index} + 1) * tile_of(count), all);
  }
  // Returns the number of elements of a data lane's share of `count` elements.
  constexpr std::uint64_t share(std::uint64_t count) const {
    const std::uint64_t near = (count + data_lanes - 1) / data_lanes;
    return (near + line - 1) / line * line;
  }

 private:
  static constexpr std::uint64_t smaller(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }
};

// The blocks that vary in size: for each of `ranks` blocks its elements and its start. The tables outlive the geometry.
struct BlockTable {
  // If this is null, all blocks have CallShape::count elements, one after the other.
  const std::uint64_t* counts = nullptr;
  const std::uint64_t* offsets = nullptr;
};

// The data that a call moves, as one rank sees it.
struct CallShape {
  Collective collective = Collective::AllReduce;
  int ranks = 1;
  Rank me = 0;
  // The elements of the vector, or of one block where parts are blocks.
  std::uint64_t count = 0;
  BlockTable input{};  // the same as output but for all_to_all
  BlockTable output{};
  std::uint32_t element_bytes = 1;
  std::uint32_t accumulator_bytes = 1;
};

// The way in which a plan cuts the call. It is equal on all ranks.
struct Cut {
  std::uint32_t parts = 1;
  std::uint32_t data_lanes = 1;
  // No message is larger, whatever its form and however many chunks it has. Only tiles of a single element may be.
  std::uint64_t tile_bytes = 1;
  // The row has kPartialMessages, or the call is a premultiplied sum.
  bool partial_messages = false;
  bool several_parts = false;  // the row's kSeveralParts
};

// Returns whether parts of `collective` are blocks of ranks, not near-equal parts of one vector.
bool moves_blocks(Collective collective) noexcept;
// Returns whether Input or Output holds the block of the own rank alone.
bool holds_one_block(Collective collective, Buffer buffer) noexcept;

// Makes a geometry. The parts of vectors start at multiples of 64 bytes.
Geometry make_geometry(const CallShape& shape, const Cut& cut);

constexpr std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) { return (value + by - 1) / by; }
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return divide_up(value, to) * to; }

}  // namespace wreath
