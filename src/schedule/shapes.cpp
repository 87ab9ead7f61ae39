// Makes every rank's call shape, and cuts it as the row says.
#include "src/schedule/shapes.hpp"

#include <algorithm>
#include <utility>

namespace wreath {
namespace {

// Returns every `step`-th of `all`, `count` of them from `first` on.
std::vector<std::uint64_t> every(const std::vector<std::uint64_t>& all, std::size_t first, std::size_t step,
                                 std::size_t count) {
  std::vector<std::uint64_t> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[first + i * step]);
  return some;
}

}  // namespace

Shapes::Shapes(const PointOf& point, const VerifyOptions& options) {
  const Cut cut{.parts = point.parts,
                .data_lanes = point.data_lanes,
                .tile_bytes = options.tile_bytes,
                .partial_messages = (point.traits & kPartialMessages) != 0,
                .several_parts = (point.traits & kSeveralParts) != 0};
  const auto n = static_cast<std::size_t>(point.ranks);
  const bool varying = !options.block_counts.empty();
  BlockTable all{};
  if (varying && point.collective != Collective::AllToAll) all = table(options.block_counts);
  for (std::size_t rank = 0; rank < n; ++rank) {
    CallShape shape{.collective = point.collective,
                    .ranks = point.ranks,
                    .me = static_cast<Rank>(rank),
                    .count = options.count,
                    .input = all,
                    .output = all,
                    .element_bytes = options.element_bytes,
                    .accumulator_bytes = options.element_bytes};
    if (varying && point.collective == Collective::AllToAll) {
      shape.input = table(every(options.block_counts, rank * n, 1, n));
      shape.output = table(every(options.block_counts, rank, n, n));
    }
    geometries_.push_back(make_geometry(shape, cut));
  }
}

BlockTable Shapes::table(std::vector<std::uint64_t> counts) {
  std::vector<std::uint64_t> offsets;
  std::uint64_t next = 0;
  for (const std::uint64_t count : counts) {
    offsets.push_back(next);
    next += count;
  }
  tables_.push_back(std::move(counts));
  tables_.push_back(std::move(offsets));  // moving keeps their addresses
  return {.counts = tables_.end()[-2].data(), .offsets = tables_.back().data()};
}

std::uint32_t Shapes::tiles() const {
  std::uint32_t most = 0;
  for (const Geometry& geometry : geometries_) most = std::max(most, geometry.tiles);
  return most;
}

}  // namespace wreath
