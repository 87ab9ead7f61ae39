// Calls become shapes, queries and signatures here.
#include "src/engine/call_shape.hpp"

#include <algorithm>
#include <numeric>

namespace wreath {
namespace {

// Returns the counts of a v-form. Where it has counts of both directions, these are the counts that it sends.
std::span<const std::size_t> counts_of(const Call& call) {
  return call.input_blocks.counts.empty() ? call.output_blocks.counts : call.input_blocks.counts;
}

BlockTable table_of(const Blocks& blocks) { return {blocks.counts.data(), blocks.displacements.data()}; }

}  // namespace

std::uint64_t elements_of(const Call& call) noexcept {
  if (!call.varying()) return call.count;
  const auto counts = counts_of(call);
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::uint64_t bytes_of(const Call& call, std::uint64_t elements, int ranks) noexcept {
  const auto blocks = moves_blocks(call.collective) && !call.varying() ? static_cast<std::uint64_t>(ranks) : 1;
  return elements * blocks * size_of(call.dtype);
}

Query query_of(const Call& call, std::uint64_t elements, int ranks) noexcept {
  const bool agree = counts_agree(call.collective, call.varying());
  return {.collective = call.collective,
          .bytes = agree ? bytes_of(call, elements, ranks) : kUnknownBytes,
          .varying = call.varying(),
          .premultiplied = call.reduction.op == ReduceOp::PremultipliedSum};
}

std::uint64_t mix_call(std::uint64_t hash, const Call& call, std::uint64_t elements) {
  hash = mix(hash, words_of(call, elements).hash);
  if (call.varying() && counts_agree(call.collective, true)) {
    for (const std::size_t count : counts_of(call)) hash = mix(hash, count);
  }
  return hash;
}

CallShape shape_of(const Call& call, int ranks, Rank me) noexcept {
  CallShape shape{.collective = call.collective,
                  .ranks = ranks,
                  .me = me,
                  .count = call.count,
                  .element_bytes = static_cast<std::uint32_t>(size_of(call.dtype)),
                  .accumulator_bytes = static_cast<std::uint32_t>(size_of(accumulator_of(call.dtype)))};
  if (!call.varying()) return shape;
  shape.input = table_of(call.input_blocks.counts.empty() ? call.output_blocks : call.input_blocks);
  shape.output = table_of(call.output_blocks.counts.empty() ? call.input_blocks : call.output_blocks);
  return shape;
}

bool uses_input(Collective collective, Rank root, Rank me) noexcept {
  if (collective == Collective::Broadcast || collective == Collective::Scatter) return root == me;
  return collective != Collective::Barrier;
}

bool uses_output(Collective collective, Rank root, Rank me) noexcept {
  if (collective == Collective::Reduce || collective == Collective::Gather) return root == me;
  return collective != Collective::Barrier;
}

std::uint64_t extent_of(const Call& call, const Geometry& geometry, Buffer buffer, std::uint32_t parts,
                        Rank me) noexcept {
  const bool one = holds_one_block(call.collective, buffer);
  const PartTable& table = buffer == Buffer::Input ? geometry.input : geometry.output;
  const std::uint32_t first = one ? static_cast<std::uint32_t>(me) : 0;
  const std::uint32_t past = one ? first + 1 : parts;
  std::uint64_t end = 0;
  for (std::uint32_t i = first; i < past; ++i) {
    const ElementRange range = table.part(i);
    if (range.count > 0) end = std::max(end, range.first + range.count);
  }
  return end * size_of(call.dtype);
}

std::uint64_t extent_of(const Call& call, Buffer buffer, Place place) noexcept {
  const Cut cut{.parts = static_cast<std::uint32_t>(place.ranks)};
  return extent_of(call, make_geometry(shape_of(call, place.ranks, place.me), cut), buffer, cut.parts, place.me);
}

}  // namespace wreath
