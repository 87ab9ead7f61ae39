// The host processor: the executor's kernels on a CPU, and the round-robin scheduler over lanes.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/kernels.hpp"
#include "src/base/peer_memory.hpp"
#include "src/executor/slot_fill.hpp"
#include "src/executor/trace.hpp"
#include "src/executor/try_step.hpp"
#include "src/schedule/step.hpp"

namespace wreath {

// Moves the bytes of try_step on this CPU.
struct HostProcessor {
  static constexpr std::size_t kBlockBytes = 8192;  // stays in L1 between two kernels
  static constexpr bool kStreams = true;
  static constexpr bool kTraces = true;
  static constexpr bool kCombinesInSlots = false;  // it would fetch the lines that the slot's reader holds
  static constexpr bool kKeepsSources = false;     // lanes take turns
  static constexpr std::size_t kPulledBytes = 1U << 20;
  static constexpr std::size_t kPulledBlockBytes = 128U << 10;  // stays in L2 until it is combined

  struct SourceList {
    explicit SourceList(const HostProcessor& /*processor*/) {}
    const std::byte* data[kMaximumFanIn + 1];  // NOLINT(modernize-avoid-c-arrays): as far as it is filled
    Origin origins[kMaximumFanIn + 1];         // NOLINT(modernize-avoid-c-arrays): likewise
  };

  Arithmetic arithmetic{};  // combine null: nothing is combined, all bytes are moved as they are
  CopyKernels copies{};
  std::byte* pulled = nullptr;
  SlotFill slot_fill{};
  // 0, or an errno value. Of devices as slots name them.
  int (*read_device)(std::uint64_t device, std::byte* target, const std::byte* source, std::size_t bytes) = nullptr;

  void combine(std::byte* target, Form target_form, const std::byte* const* sources, int k, Operands operands,
               std::size_t elements) const {
    arithmetic.combine(arithmetic, target, target_form, sources, k, operands, elements);
  }
  void copy(std::byte* target, const std::byte* source, std::size_t bytes) const {
    copies.plain(target, source, bytes);
  }
  void begin_slot(SendFifo& fifo, std::size_t bytes) { slot_fill.begin(history_of(fifo, bytes)); }
  void fill(std::byte* slot, const std::byte* source, std::size_t bytes) {
    slot_fill.fill(copies, slot, source, bytes);
  }
  void end_slot() { slot_fill.end(copies); }
  void stream(std::byte* target, const std::byte* source, std::size_t bytes) const {
    copies.stream(target, source, bytes);
  }
  void end_stream() const { copies.end_stream(); }
  int pull(const ProcessMemory& process, std::byte* target, const std::byte* source, std::size_t bytes) const {
    return read_peer(process, target, source, bytes);
  }
  int pull(std::uint64_t device, std::byte* target, const std::byte* source, std::size_t bytes) const {
    return read_device(device, target, source, bytes);
  }
};

// What changes of form mean under `arithmetic`; without a combine nothing changes.
Conversions conversions_of(const Arithmetic& arithmetic) noexcept;

// The places of Scratch and Partial of all lanes. Grows, never shrinks; contents do not outlive a call.
class LaneScratch {
 public:
  // At least `bytes` of memory, at a line's start; null for none. Pointers given before end.
  std::byte* reserve(std::uint64_t bytes);

 private:
  std::unique_ptr<std::byte[]> memory_;  // NOLINT(modernize-avoid-c-arrays)
  std::uint64_t bytes_ = 0;
};

// A lowered schedule bound to a communicator's FIFOs.
struct Plan {
  Lowered lowered;
  std::vector<SendFifo*> targets;
  std::vector<RecvFifo*> sources;
  LaneScratch scratch;
};

// The state of an operation of `plan` on this rank. Of `call` the call's fields are given: geometry, Input and Output
// with their regions, signatures, epoch; the others are set here, and Scratch and Partial get their places.
OperationState begin_operation(Plan& plan, const OperationState& call, const Conversions& conversions);

// Bytes that the places of Scratch and of Partial take, both whole lines.
struct LanePlaces {
  std::uint64_t scratch;
  std::uint64_t partial;
};
LanePlaces places_of(const Plan& plan, const Geometry& geometry);

// Lane `index` of the plan before its first step; one with nothing to do is done.
LaneState begin_lane(const Plan& plan, const OperationState& state, std::size_t index);

// One operation's lanes on this rank, advanced by whoever drives the communicator.
class LaneScheduler {
 public:
  static constexpr std::size_t kAllResident = ~std::size_t{0};

  // Needed, once, before messages may come that are fetched. False: there is no memory for it.
  bool prepare_to_pull();

  // Starts all lanes of `plan`; `state` as begin_operation() has it. At any time only the `resident` lowest-numbered
  // unfinished lanes run.
  // Plan, signature tables and geometry's tables must live until the operation is over.
  void start(Plan& plan, const OperationState& state, const HostProcessor& processor,
             std::size_t resident = kAllResident);

  // Advances every resident lane until it blocks or `budget` steps are done. Failed: see failed_lane().
  Advance run(int budget);

  // Instead of run(), where something else has advanced lanes: each is now as `states` says.
  void adopt(std::span<const LaneState> states);

  // Whether in the last run all lanes with messages waited.
  bool waits() const { return waits_; }

  // Keeps what lanes do from now on in `trace`, which outlives this; null: nothing.
  void set_trace(StepTrace* trace) { trace_ = trace; }

  // A lane that waits for a message, and for which: the first one; nullptr if none does.
  const FifoEnd* waiting_for() const;
  const LaneState* failed_lane() const { return failed_; }
  // Of the messages that the operation has published so far.
  std::uint64_t sent_bytes() const;

  // The lanes that are resident and not done, as indices of the plan's lanes, and where each is.
  std::span<const std::uint16_t> running() const { return running_; }
  const LaneState& lane(std::uint16_t index) const { return lanes_[index]; }
  const Plan& plan() const { return *plan_; }
  const OperationState& state() const { return state_; }

 private:
  void add_lane();
  void end_lane(std::size_t place);
  bool advance_local();
  Advance advance(LaneState& lane);
  Advance advance_traced(LaneState& lane);
  bool drained() const;

  Plan* plan_ = nullptr;
  OperationState state_;
  HostProcessor processor_;
  std::unique_ptr<std::byte[]> pulled_;  // NOLINT(modernize-avoid-c-arrays)
  std::vector<LaneState> lanes_;
  std::vector<std::uint16_t> running_;  // resident lanes
  std::size_t turn_ = 0;                // in running_
  std::size_t begun_ = 0;               // lanes that are or were resident
  bool names_ = false;                  // readers are told where data lies, not given it
  bool waits_ = false;
  const LaneState* failed_ = nullptr;
  StepTrace* trace_ = nullptr;
};

}  // namespace wreath
