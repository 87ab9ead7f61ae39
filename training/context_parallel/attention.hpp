// This file declares causal attention over sequences whose parts lie on the ranks of a context-parallel group.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "training/compute/attention.hpp"
#include "training/compute/memory.hpp"
#include "training/mesh/group.hpp"
#include "training/parameters/parameter.hpp"

namespace wreath::training {

// Returns the places of a sequence of `length` that rank `rank` of `ranks` holds, in ascending order. The sequence has
// 2 * ranks near-equal chunks, and the rank holds chunks `rank` and 2 * ranks - 1 - rank (zigzag). All ranks so see as
// many keys. Where `ranks` is 1 it is one range of all places.
std::vector<Range> sequence_ranges(std::int64_t length, int ranks, int rank);

// This rank's part of a micro-batch's attention.
struct AttentionBatch {
  AttentionShape shape;        // heads of this rank
  std::int64_t sequences = 1;  // of the micro-batch
  std::int64_t length = 1;     // of a whole sequence
};

// Computes attention on one thread. All ranks of the group make the same calls in the same order.
class ContextAttention {
 public:
  virtual ~ContextAttention() = default;
  // Computes output [sequences][places here][heads * head_size] and log_sum_exp [sequences][places here][heads]. The
  // input qkv is [sequences][places here][3][heads * head_size].
  virtual void forward(const AttentionBatch& batch, std::span<const float> qkv, std::span<float> output,
                       std::span<float> log_sum_exp) = 0;
  // The buffers of the forward pass, from which backward() writes qkv_gradient.
  struct Saved {
    std::span<const float> qkv;
    std::span<const float> output;
    std::span<const float> log_sum_exp;
  };
  virtual void backward(const AttentionBatch& batch, const Saved& saved, std::span<const float> output_gradient,
                        std::span<float> qkv_gradient) = 0;
};

// Makes attention whose keys and values pass around the ring (Liu, Zaharia, Abbeel, "Ring attention with blockwise
// transformers", 2023). With c ranks, a rank sends for each call, in floats of one rank's K and V: (c - 1) forward; (c
// - 1) and c of their gradients backward.
std::unique_ptr<ContextAttention> make_ring_attention(Group& context, MemoryAccounting& memory);

// Makes attention in which all ranks exchange parts of the sequence for parts of the heads (Jacobs et al., "DeepSpeed
// Ulysses", 2023). Forward takes two all_to_all_v: of queries, keys and values, then of outputs with their log-sum-exp.
// Backward takes two: of queries, keys, values and output gradients with log-sum-exp and delta, then of the gradients
// of queries, keys and values. In floats of one rank's K, on `heads` of `head_size`, that is 4 + 1 / head_size forward
// and 7 + 2 / head_size backward. Heads that do not divide by the ranks are distributed unevenly. Fewer heads than
// ranks are InvalidArgument. Results have the bits of one rank's.
std::unique_ptr<ContextAttention> make_ulysses_attention(Group& context, MemoryAccounting& memory);

}  // namespace wreath::training
