// PipelineSchedule lists the actions of each rank of a pipeline, as data that is printed, proved, timed and run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wreath/result.hpp"

namespace wreath::training {

// Returns the error of a schedule or a pipeline that is not possible.
inline Error invalid(std::string message) { return {ErrorCode::InvalidArgument, std::move(message)}; }

inline std::size_t index(int value) { return static_cast<std::size_t>(value); }

enum class ActionKind : std::uint8_t {
  Forward,
  // Computes the gradients of the input and of the weights.
  Backward,
  // Computes the gradient of the input alone.
  BackwardInput,
  // Computes the gradients of the weights, after BackwardInput has run.
  BackwardWeights,
};

// One micro-batch through one of the rank's chunks.
struct Action {
  ActionKind kind = ActionKind::Forward;
  int chunk = 0;
  int micro_batch = 0;
  bool operator==(const Action&) const = default;
};

// The schedule of a pipeline. Chunk c of rank r is stage c * ranks + r of the model. A message leaves when its action
// ends. The gradient of a Backward so waits for the weights' part, too; that of a BackwardInput does not.
struct PipelineSchedule {
  std::string name;  // small letters, digits, underscores
  int ranks = 1;
  int chunks_per_rank = 1;
  int micro_batches = 1;
  std::vector<std::vector<Action>> actions;  // of each rank, in order
  int stages() const noexcept { return ranks * chunks_per_rank; }
  int stage_of(int rank, int chunk) const noexcept { return chunk * ranks + rank; }
  bool operator==(const PipelineSchedule&) const = default;
};

struct PipelineShape {
  int ranks = 1;
  int chunks_per_rank = 1;
  int micro_batches = 1;
};

// Checks that all three are at least 1, and their product at most 2^24. Otherwise the error is InvalidArgument.
Status check_shape(const PipelineShape& shape);

// Makes a schedule by name. In each one a stage adds the weights' gradients in the order of micro-batches, so the sums
// are the same in all. There are p ranks, m micro-batches and v chunks per rank; F, B, W are the times of forward,
// backward by input and backward by weights:
//   gpipe        Runs all forward, then all backward (Huang et al., "GPipe", 2019). Each rank idles
//                (p - 1)(F + B + W) and has m micro-batches in flight.
//   1f1b         Runs p - r forward on rank r, then one backward and one forward in turns (Narayanan et al.,
//                "PipeDream", 2019, with flush). It idles like gpipe, with min(m, p - r) micro-batches in flight.
//   interleaved  Does the same over v >= 2 chunks (Narayanan et al., "Efficient large-scale language model training on
//                GPU clusters using Megatron-LM", 2021). Where p divides m it idles (p - 1)(F + B + W) / v. F, B and W
//                are here of all chunks of a rank. It then has min(m v, 2(p - r - 1) + (v - 1) p + 1) chunks in
//                flight. Otherwise it has at most so many, and idles longer.
//   zb_h1        Is 1f1b with the weights' part of rank r's backward passes r micro-batches later (Qi et al., "Zero
//                bubble pipeline parallelism", 2023, schedule H1). For m >= p it idles (p - 1)(F + B - W), where
//                F = B = W. At most min(m, p) micro-batches are in flight.
// The error is InvalidArgument, which names the value.
Result<PipelineSchedule> make_schedule(std::string_view name, const PipelineShape& shape);

struct ScheduleBuilder {
  std::string_view name;
  Result<PipelineSchedule> (*build)(const PipelineShape& shape);
};
std::span<const ScheduleBuilder> schedule_builders() noexcept;

// Returns a text like "F3", "B3", "I3" (BackwardInput) or "W3" (BackwardWeights) for micro-batch 3. For chunk 1 it is
// "1F3".
std::string to_text(const Action& action);

// Returns a first line with the sizes and then one line for each rank:
//   pipeline 1f1b ranks 2 chunks 1 micro_batches 2
//   0: F0 F1 B0 B1
//   1: F0 B0 F1 B1
std::string to_text(const PipelineSchedule& schedule);

}  // namespace wreath::training
