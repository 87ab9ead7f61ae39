// This file declares the payload that a training step must communicate, by closed forms of the strategies over sizes
// alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "examples/train_gpt/train/options.hpp"

namespace wreath::gpt {

// The bytes of a payload. Least and most differ where they depend on the timing of events.
struct PayloadBounds {
  std::uint64_t least = 0;
  std::uint64_t most = 0;
  bool exact() const noexcept { return least == most; }
  bool contains(std::uint64_t bytes) const noexcept { return least <= bytes && bytes <= most; }
};

// The payload by group and operation.
using StepPayload = std::map<std::pair<std::string, std::string>, PayloadBounds>;

// Returns the payload of one step of the rank at `place`. check() must accept the options, and the model's vocabulary
// must be set. The formulas use neither the layers nor their counts, so that they can be compared with
// CommunicationAccounting. Psi is the rank's parameters (4 bytes each, 2 in mixed precision), N = dp * cp the replicas,
// and A the micro-batches. X = rows * width of one micro-batch, and L the layers (Rajbhandari et al., "ZeRO", SC 2020;
// Shoeybi et al., "Megatron-LM", 2019; Korthikanti et al., "Reducing activation recomputation in large transformer
// models", 2022; Liu et al., "Ring attention", 2023; Jacobs et al., "DeepSpeed Ulysses", 2023):
//   DistributedDataParallel   all_reduce Psi
//   ZeRO 1                    reduce_scatter Psi, all_gather Psi
//   ZeRO 2                    reduce_scatter A Psi, all_gather Psi
//   ZeRO 3                    reduce_scatter A Psi, all_gather 2 A Psi. The last unit counts once less, since its
//                             weights stay for the backward pass. The tied table counts once more for the head. Where
//                             forward and backward passes do not alternate unit by unit (pipelines, gpipe) a unit may
//                             be gathered already, so there are two bounds.
//   tensor                    all_reduce A (4 L + 2) X, and 3 values a row for the loss
//   tensor, by sequence       all_gather A (8 L + 3) X, reduce_scatter A (4 L + 2) X, all_reduce of vectors' gradients
//   pipeline                  send and recv of X each boundary, direction and micro-batch; all_reduce of the tied table
//   ring                      send and recv per layer (c - 1) blocks of K and V forward, (c - 1) + c backward
//   Ulysses                   all_to_all per layer 4 + 1 / head_size forward, 7 + 2 / head_size backward, times Q
// Recomputation repeats the communication of the blocks' forward pass. ZeRO's buckets (1: by bytes, 2 and 3: by unit)
// are padded to a multiple of N.
StepPayload step_payload(const TrainOptions& options, const training::MeshPlace& place);

}  // namespace wreath::gpt
