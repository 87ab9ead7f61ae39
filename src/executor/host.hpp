// The host processor: the executor's kernels on a CPU, and the round-robin scheduler over lanes.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernels.hpp"
#include "src/executor/try_step.hpp"
#include "src/schedule/step.hpp"

namespace wreath {

// Moves the bytes of try_step on this CPU.
struct HostProcessor {
  ReduceKernel reduce_kernel = nullptr;
  CopyKernel copy_kernel = nullptr;
  CopyKernel fill_kernel = nullptr;

  void reduce(std::byte* target, const std::byte* const* sources, int k, std::size_t elements) const {
    reduce_kernel(target, sources, k, elements);
  }
  void copy(std::byte* target, const std::byte* source, std::size_t bytes) const { copy_kernel(target, source, bytes); }
  void fill(std::byte* slot, const std::byte* source, std::size_t bytes) const { fill_kernel(slot, source, bytes); }
};

// A lowered schedule bound to a communicator's FIFOs.
struct Plan {
  Lowered lowered;
  std::vector<SendFifo*> targets;
  std::vector<RecvFifo*> sources;
  std::vector<std::byte> scratch;
};

// One operation's lanes on this rank, advanced by whoever drives the communicator.
class LaneScheduler {
 public:
  // Starts all lanes of `plan`. `state` must be complete but for steps, targets and sources.
  void start(Plan& plan, const OperationState& state, const HostProcessor& processor);

  // Advances every lane until it blocks or `budget` steps are done. Failed: see failed_lane().
  Advance run(int budget);

  // A lane that waits for a message, and for which: the first one; nullptr if none does.
  const FifoEnd* waiting_for() const;
  const LaneState* failed_lane() const { return failed_; }
  const Plan& plan() const { return *plan_; }
  const OperationState& state() const { return state_; }

 private:
  bool drained() const;

  Plan* plan_ = nullptr;
  OperationState state_;
  HostProcessor processor_;
  std::vector<LaneState> lanes_;
  std::size_t next_ = 0;
  std::size_t left_ = 0;
  const LaneState* failed_ = nullptr;
};

}  // namespace wreath
