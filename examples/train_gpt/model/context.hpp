// This file declares the data that the layers of a GPT share on one rank.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "examples/train_gpt/model/config.hpp"
#include "training/compute/compute.hpp"
#include "training/compute/convert.hpp"
#include "training/compute/memory.hpp"
#include "training/context_parallel/attention.hpp"
#include "training/mesh/mesh.hpp"
#include "training/parameters/parameter.hpp"
#include "training/tensor_parallel/layers.hpp"

namespace wreath::gpt {

// The part of a micro-batch that this rank sees. Rows are [sequences][places here].
struct MicroBatchShape {
  std::int64_t sequences = 1;
  std::vector<training::Range> places;  // of each sequence, in ascending order
  std::int64_t places_here() const noexcept {
    std::int64_t sum = 0;
    for (const training::Range& range : places) sum += range.count;
    return sum;
  }
  std::int64_t rows() const noexcept { return sequences * places_here(); }
};

// The tokens of one micro-batch here, and their place in the global batch, by which dropout draws.
struct MicroBatch {
  std::vector<std::int32_t> tokens;   // [rows]
  std::vector<std::int32_t> targets;  // [rows]
  std::int64_t first_sequence = 0;    // of the global batch
  std::uint32_t step = 0;
  // Without it dropout leaves all values, for validation and samples.
  bool drops = true;
};

// Finds the data that a layer's `pass` left of a micro-batch. Throws InvalidUsage where `is_there` does not hold for
// it, since that pass was left out.
template <typename Kept, typename IsThere>
typename std::map<int, Kept>::iterator kept_by(const char* pass, std::map<int, Kept>& kept, int micro_batch,
                                               const IsThere& is_there) {
  const auto found = kept.find(micro_batch);
  if (found != kept.end() && is_there(found->second)) return found;
  throw Exception(
      {ErrorCode::InvalidUsage, "micro-batch " + std::to_string(micro_batch) + ": its " + pass + " pass was left out"});
}

struct ModelContext {
  GptConfig config;
  std::uint64_t seed = 1337;
  MicroBatchShape shape;
  training::MemoryAccounting* memory = nullptr;
  training::TensorRegion* region = nullptr;
  training::ContextAttention* attention = nullptr;
  // Blocks then keep only their input and run forward again in the backward pass.
  bool recompute = false;

  // The format of the values that layers pass on, both ways; empty: float32.
  std::optional<DataType> half;

  // Rounds values that a layer passes on to that format.
  void round(std::span<float> values) const {
    if (half) training::round_to(*half, values, values);
  }
  std::int64_t rows() const noexcept { return shape.rows(); }
  // Returns the rows held outside of divided layers: fewer with sequence parallelism.
  training::Range held() const noexcept { return region->held_rows(rows()); }
  std::size_t held_count() const noexcept { return static_cast<std::size_t>(held().count * config.width); }
  training::Buffer<float> activations(std::int64_t rows, std::int64_t width) const {
    return {*memory, training::MemoryTag::Activations, static_cast<std::size_t>(rows * width),
            training::Contents::Undefined};
  }
};

}  // namespace wreath::gpt
