// How a call's elements are cut: parts of a buffer, a data lane's share of a part, tiles of a share.
#pragma once

#include <cstdint>

namespace wreath {

struct ElementRange {
  std::uint64_t first;
  std::uint64_t count;
};

// Equal on all ranks: made from the call's count and the plan alone. Shares and parts start at
// multiples of 64 bytes, so that neighbours never share a cache line.
struct Geometry {
  std::uint64_t count;        // elements of the whole buffer
  std::uint64_t part_stride;  // elements between starts of parts
  std::uint64_t lane_stride;  // elements between starts of shares within a part
  std::uint64_t tile;         // elements of a full tile
  std::uint32_t tiles;        // tiles of every lane, the same for all; trailing ones may be empty
  std::uint32_t element_bytes;

  constexpr ElementRange range(std::uint32_t part, std::uint32_t data_lane, std::uint32_t tile_index) const {
    const std::uint64_t part_first = smaller(part * part_stride, count);
    const std::uint64_t part_end = smaller(part_first + part_stride, count);
    const std::uint64_t share_first = smaller(part_first + data_lane * lane_stride, part_end);
    const std::uint64_t share_end = smaller(share_first + lane_stride, part_end);
    const std::uint64_t first = smaller(share_first + tile_index * tile, share_end);
    return {first, smaller(first + tile, share_end) - first};
  }

 private:
  static constexpr std::uint64_t smaller(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }
};

constexpr std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) { return (value + by - 1) / by; }
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return divide_up(value, to) * to; }

// `tile_bytes` is rounded down to whole elements, at least one.
constexpr Geometry make_geometry(std::uint64_t count, std::uint32_t element_bytes, std::uint32_t parts,
                                 std::uint32_t data_lanes, std::uint64_t tile_bytes) {
  const std::uint64_t line = element_bytes < 64 ? 64 / element_bytes : 1;
  Geometry g{};
  g.count = count;
  g.element_bytes = element_bytes;
  g.part_stride = parts == 1 ? count : round_up(divide_up(count, parts), line);
  g.lane_stride = data_lanes == 1 ? g.part_stride : round_up(divide_up(g.part_stride, data_lanes), line);
  g.tile = tile_bytes < element_bytes ? 1 : tile_bytes / element_bytes;
  g.tiles = static_cast<std::uint32_t>(divide_up(g.lane_stride, g.tile));
  return g;
}

}  // namespace wreath
