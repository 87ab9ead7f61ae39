// PipelineSchedule: what each rank of a pipeline does, action by action, as data that is printed, proved, timed and
// run.
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

// The error of a schedule or a pipeline that cannot be.
inline Error invalid(std::string message) { return {ErrorCode::InvalidArgument, std::move(message)}; }

inline std::size_t index(int value) { return static_cast<std::size_t>(value); }

enum class ActionKind : std::uint8_t {
  Forward,
  Backward,         // the gradients of the input and of the weights
  BackwardInput,    // of the input alone
  BackwardWeights,  // of the weights, once BackwardInput has run
};

// One micro-batch through one of the rank's chunks.
struct Action {
  ActionKind kind = ActionKind::Forward;
  int chunk = 0;
  int micro_batch = 0;
  bool operator==(const Action&) const = default;
};

// Chunk c of rank r is stage c * ranks + r of the model. A message leaves when its action ends: the gradient of a
// Backward waits for the weights' part, too; that of a BackwardInput does not.
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

// All three are at least 1, and their product at most 2^24: else InvalidArgument.
Status check_shape(const PipelineShape& shape);

// In each, a stage adds the weights' gradients in the order of micro-batches: the sums are the same in all. With p
// ranks, m micro-batches, v chunks per rank; F, B, W the times of forward, backward by input, backward by weights:
//   gpipe        all forward, then all backward (Huang et al., "GPipe", 2019). Idle (p - 1)(F + B + W) on each rank;
//                m micro-batches in flight.
//   1f1b         p - r forward on rank r, then one backward, one forward (Narayanan et al., "PipeDream", 2019, with
//                flush). As idle; min(m, p - r) in flight.
//   interleaved  the same over v >= 2 chunks (Narayanan et al., "Efficient large-scale language model training on GPU
//                clusters using Megatron-LM", 2021). Where p divides m: idle (p - 1)(F + B + W) / v, with F, B and W of
//                all chunks of a rank; min(m v, 2(p - r - 1) + (v - 1) p + 1) chunks in flight; else at
//                most so many, and more idle time.
//   zb_h1        1f1b with the weights' part of rank r's backward passes r micro-batches later (Qi et al., "Zero bubble
//                pipeline parallelism", 2023, schedule H1). For m >= p: idle (p - 1)(F + B - W), where F = B = W; at
//                most min(m, p) in flight.
// Error: InvalidArgument, which names the value.
Result<PipelineSchedule> make_schedule(std::string_view name, const PipelineShape& shape);

struct ScheduleBuilder {
  std::string_view name;
  Result<PipelineSchedule> (*build)(const PipelineShape& shape);
};
std::span<const ScheduleBuilder> schedule_builders() noexcept;

// "F3", "B3", "I3" (BackwardInput), "W3" (BackwardWeights) of micro-batch 3; of chunk 1 "1F3".
std::string to_text(const Action& action);

//   pipeline 1f1b ranks 2 chunks 1 micro_batches 2
//   0: F0 F1 B0 B1
//   1: F0 B0 F1 B1
std::string to_text(const PipelineSchedule& schedule);
// The inverse. Error: InvalidArgument, which names line and word. What it returns is well-formed, not yet proved.
Result<PipelineSchedule> parse_schedule(std::string_view text);

}  // namespace wreath::training
