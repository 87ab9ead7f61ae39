// Makes a geometry: it places the parts, and decides the size and the number of tiles.
#include "src/schedule/geometry.hpp"

#include <algorithm>

namespace wreath {
namespace {

PartTable table_of(const CallShape& shape, const Cut& cut, Buffer buffer, std::uint32_t line) {
  const BlockTable& blocks = buffer == Buffer::Output ? shape.output : shape.input;
  const auto me = static_cast<std::uint32_t>(shape.me);
  PartTable table;
  table.stride = shape.count;
  table.counts = blocks.counts;
  table.offsets = blocks.offsets;
  if (!moves_blocks(shape.collective)) {
    table.total = shape.count;
    if (cut.parts > 1) table.stride = round_up(divide_up(shape.count, cut.parts), line);
  } else {
    table.total = shape.count * cut.parts;
    if (holds_one_block(shape.collective, buffer)) {
      table.origin = table.counts != nullptr ? table.offsets[me] : me * table.stride;
    }
  }
  return table;
}

// Returns the elements of the largest part.
std::uint64_t largest(const PartTable& table, std::uint32_t parts) {
  if (table.counts == nullptr) return parts == 0 ? 0 : std::min(table.stride, table.total);
  return parts == 0 ? 0 : *std::max_element(table.counts, table.counts + parts);
}

std::uint64_t tile_elements(const CallShape& shape, const Cut& cut) {
  const std::uint64_t bytes = cut.partial_messages ? shape.accumulator_bytes : shape.element_bytes;
  const int chunks = cut.several_parts ? std::clamp(shape.ranks, 1, kMaximumMessageParts) : 1;
  return std::max<std::uint64_t>(1, cut.tile_bytes / bytes / static_cast<std::uint64_t>(chunks));
}

}  // namespace

bool moves_blocks(Collective collective) noexcept {
  switch (collective) {
    case Collective::AllReduce:
    case Collective::Broadcast:
    case Collective::Reduce:
    case Collective::Barrier: return false;
    default: return true;
  }
}

bool holds_one_block(Collective collective, Buffer buffer) noexcept {
  switch (collective) {
    case Collective::AllGather:
    case Collective::Gather: return buffer == Buffer::Input;
    case Collective::ReduceScatter:
    case Collective::Scatter: return buffer == Buffer::Output;
    default: return false;
  }
}

Geometry make_geometry(const CallShape& shape, const Cut& cut) {
  Geometry geometry;
  geometry.line = shape.element_bytes < 64 ? 64 / shape.element_bytes : 1;
  geometry.element_bytes = shape.element_bytes;
  geometry.accumulator_bytes = shape.accumulator_bytes;
  geometry.data_lanes = cut.data_lanes;
  geometry.input = table_of(shape, cut, Buffer::Input, geometry.line);
  geometry.output = table_of(shape, cut, Buffer::Output, geometry.line);
  geometry.tile = tile_elements(shape, cut);
  // Any block may pass through Scratch, so all blocks count, not only those that Input and Output hold.
  const std::uint64_t most = std::max(largest(geometry.input, cut.parts), largest(geometry.output, cut.parts));
  const std::uint64_t share = cut.data_lanes == 1 ? most : std::min(most, geometry.share(most));
  geometry.tiles = static_cast<std::uint32_t>(std::min<std::uint64_t>(kTooManyTiles, divide_up(share, geometry.tile)));
  return geometry;
}

}  // namespace wreath
