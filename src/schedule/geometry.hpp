// How a call's elements are cut: parts of a buffer, a data lane's share of a part, tiles of a share.
#pragma once

#include <cstdint>

#include "wreath/schedule.hpp"

namespace wreath {

struct ElementRange {
  std::uint64_t first;
  std::uint64_t count;
};

// Where the parts of one caller's buffer are, in elements. Equal parts lie `stride` apart, the last ones cut off at
// `total`; blocks that vary are in tables. `origin` is where the buffer starts: that of the one part it holds, else 0.
struct PartTable {
  std::uint64_t total = 0;
  std::uint64_t stride = 0;
  std::uint64_t origin = 0;
  const std::uint64_t* counts = nullptr;   // by part; null: equal parts
  const std::uint64_t* offsets = nullptr;  // by part, where its first element is

  constexpr ElementRange part(std::uint32_t part) const {
    if (counts != nullptr) return {offsets[part] - origin, counts[part]};
    const std::uint64_t first = part * stride < total ? part * stride : total;
    const std::uint64_t count = total - first < stride ? total - first : stride;
    return {first - origin, count};
  }
};

// As many tiles as a lane cannot count: a call of so many cannot be made.
inline constexpr std::uint32_t kTooManyTiles = 0xFFFFFFFF;

// One rank's view of one call: made from the call's counts and the plan alone.
struct Geometry {
  PartTable input;
  PartTable output;
  std::uint64_t tile = 1;   // elements of a full tile
  std::uint32_t tiles = 0;  // tiles of every lane; where a part has fewer, lines do nothing
  std::uint32_t data_lanes = 1;
  std::uint32_t line = 1;  // elements of 64 bytes, at least 1: shares start at multiples
  std::uint32_t element_bytes = 1;
  std::uint32_t accumulator_bytes = 1;

  constexpr std::uint32_t bytes_of(Form form) const { return form == Form::Data ? element_bytes : accumulator_bytes; }
  // The elements of (part, data lane, tile): in Input or Output counted from the start of the buffer; in Scratch and
  // Partial only the count means something.
  constexpr ElementRange range(Buffer buffer, std::uint32_t part, std::uint32_t data_lane,
                               std::uint32_t tile_index) const {
    const ElementRange whole = (buffer == Buffer::Output ? output : input).part(part);
    const std::uint64_t stride = data_lanes == 1 ? whole.count : share(whole.count);
    const std::uint64_t share_first = smaller(data_lane * stride, whole.count);
    const std::uint64_t share_end = smaller(share_first + stride, whole.count);
    const std::uint64_t first = smaller(share_first + tile_index * tile, share_end);
    return {whole.first + first, smaller(first + tile, share_end) - first};
  }
  // Elements of (part, data lane) in all tiles.
  constexpr std::uint64_t elements(Buffer buffer, std::uint32_t part, std::uint32_t data_lane) const {
    const std::uint64_t count = (buffer == Buffer::Output ? output : input).part(part).count;
    const std::uint64_t stride = data_lanes == 1 ? count : share(count);
    const std::uint64_t first = smaller(data_lane * stride, count);
    return smaller(first + stride, count) - first;
  }
  // Elements of a data lane's share of `count` elements.
  constexpr std::uint64_t share(std::uint64_t count) const {
    const std::uint64_t near = (count + data_lanes - 1) / data_lanes;
    return (near + line - 1) / line * line;
  }

 private:
  static constexpr std::uint64_t smaller(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }
};

// Blocks that vary in size: for each of `ranks` blocks its elements and where it starts. Tables outlive the geometry.
struct BlockTable {
  const std::uint64_t* counts = nullptr;  // null: all blocks have CallShape::count elements, one after the other
  const std::uint64_t* offsets = nullptr;
};

// What a call moves, as one rank sees it.
struct CallShape {
  Collective collective = Collective::AllReduce;
  int ranks = 1;
  Rank me = 0;
  std::uint64_t count = 0;  // elements of the vector; of one block where parts are blocks
  BlockTable input{};       // both the same table but for all_to_all
  BlockTable output{};
  std::uint32_t element_bytes = 1;
  std::uint32_t accumulator_bytes = 1;
};

// How a plan cuts it. Equal on all ranks.
struct Cut {
  std::uint32_t parts = 1;
  std::uint32_t data_lanes = 1;
  std::uint64_t tile_bytes = 1;   // no message is larger, whatever its form and however many chunks it has, but for
                                  // tiles of a single element
  bool partial_messages = false;  // the row's kPartialMessages, or a premultiplied sum
  bool several_parts = false;     // the row's kSeveralParts
};

// Whether parts of `collective` are blocks of ranks (else near-equal parts of one vector), and whether Input or Output
// hold the block of the own rank alone.
bool moves_blocks(Collective collective) noexcept;
bool holds_one_block(Collective collective, Buffer buffer) noexcept;

// Vectors: parts start at multiples of 64 bytes.
Geometry make_geometry(const CallShape& shape, const Cut& cut);

constexpr std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) { return (value + by - 1) / by; }
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return divide_up(value, to) * to; }

}  // namespace wreath
