// This file divides a sequence into the places that each rank holds.
#include "training/context_parallel/blocks.hpp"

namespace wreath::training {

std::vector<Range> sequence_ranges(std::int64_t length, int ranks, int rank) {
  if (ranks == 1) return {{0, length}};
  return {part_of(length, 2 * ranks, rank), part_of(length, 2 * ranks, 2 * ranks - 1 - rank)};
}

SequencePart::SequencePart(const AttentionBatch& batch, int ranks, int rank) : batch_(batch) {
  for (const Range& range : sequence_ranges(batch.length, ranks, rank)) {
    if (range.count > 0) chunks_.push_back({range.begin, range.count, places_});
    places_ += range.count;
  }
}

}  // namespace wreath::training
