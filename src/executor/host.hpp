// The host processor runs the executor's kernels on a CPU, and the scheduler gives turns to lanes, round robin.
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
  using Send = SendFifo;
  using Recv = RecvFifo;
  // A block of this size stays in L1 between two kernels.
  static constexpr std::size_t kBlockBytes = 8192;
  static constexpr bool kStreams = true;
  static constexpr bool kLands = true;
  static constexpr bool kTraces = true;
  // A combination in a slot would fetch the lines that the slot's reader holds.
  static constexpr bool kCombinesInSlots = false;
  // Lanes take turns, and each turn makes its list anew.
  static constexpr bool kKeepsSources = false;
  static constexpr std::size_t kPulledBytes = 1U << 20;
  // A block of this size stays in L2 until it is combined.
  static constexpr std::size_t kPulledBlockBytes = 128U << 10;

  struct SourceList {
    explicit SourceList(const HostProcessor& /*processor*/) {}
    const std::byte* data[kMaximumFanIn + 1];  // NOLINT(modernize-avoid-c-arrays): as far as it is filled
    std::uint64_t origins[kMaximumFanIn + 1];  // NOLINT(modernize-avoid-c-arrays): likewise
  };

  // If `combine` is null, nothing is combined, and all bytes are moved unchanged.
  Arithmetic arithmetic{};
  CopyKernels copies{};
  std::byte* pulled = nullptr;
  ReadAhead* read_ahead = nullptr;
  SlotFill slot_fill{};
  // Advances a lane whose operation names a loop. The loops stand on this file (src/executor/handwritten).
  Advance (*by_hand)(const OperationState& operation, LaneState& lane, HostProcessor& processor,
                     StepTrace* trace) = nullptr;
  // Returns 0, or an errno value. `device` is a device's number in slots.
  int (*read_device)(std::uint64_t device, std::byte* target, const std::byte* source, std::size_t bytes) = nullptr;

  void combine(std::byte* target, Form target_form, const std::byte* const* sources, int k, Operands operands,
               std::size_t elements) const {
    arithmetic.combine(arithmetic, target, target_form, sources, k, operands, elements);
  }
  void copy(std::byte* target, const std::byte* source, std::size_t bytes) const {
    copies.plain(target, source, bytes);
  }
  std::byte* begin_slot(SendFifo& fifo, std::size_t bytes) { return slot_fill.begin(fifo, bytes); }
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

// A lowered schedule bound to a communicator's FIFOs.
struct Plan {
  Lowered lowered;
  std::vector<SendFifo*> targets;
  std::vector<RecvFifo*> sources;
  // The places of Scratch and Partial of all lanes. They grow and never shrink. Their contents do not outlive a call.
  std::unique_ptr<std::byte[]> scratch;  // NOLINT(modernize-avoid-c-arrays)
  std::uint64_t scratch_bytes = 0;
};

// Returns the state of an operation of `plan` on this rank. `call` gives the call's fields: geometry, Input and Output
// with their regions, signatures, and epoch. This function sets the others, and gives Scratch and Partial their places.
// Without a combine all changes of form are plain copies.
OperationState begin_operation(Plan& plan, const OperationState& call, const Arithmetic& arithmetic);

// The bytes that the places of Scratch and of Partial take. Both are whole lines.
struct LanePlaces {
  std::uint64_t scratch;
  std::uint64_t partial;
};
LanePlaces places_of(const Plan& plan, const Geometry& geometry);

// Returns lane `index` of the plan before its first step. A lane with nothing to do is done.
LaneState begin_lane(const Plan& plan, const OperationState& state, std::size_t index);

// The lanes of one operation on this rank. The thread that drives the communicator advances them.
class LaneScheduler {
 public:
  static constexpr std::size_t kAllResident = ~std::size_t{0};
  static constexpr std::uint64_t kBytesARun = std::uint64_t{256} << 10;

  // The caller calls this once, before messages may come that are fetched. Returns false where there is no memory for
  // it.
  bool prepare_to_pull();

  // Starts all lanes of `plan`. `state` is the `call` of begin_operation(). At any time only the `resident`
  // lowest-numbered unfinished lanes run. Plan, signature tables and geometry's tables must live until the operation is
  // over.
  void start(Plan& plan, const OperationState& state, const HostProcessor& processor,
             std::size_t resident = kAllResident);

  // Advances resident lanes until all block, or `budget` steps are done, or kBytesARun bytes have moved. After
  // Failed, see failed_lane(). The caller then wakes peers that sleep: they may wait for what has moved.
  Advance run(int budget);

  // Replaces run() where something else has advanced lanes. Each lane is now as `states` says.
  void adopt(std::span<const LaneState> states);

  // Returns whether all lanes with messages waited in the last run, and one of them may do so for this peer.
  bool waits_for(int peer) const;

  // Keeps what lanes do from now on in `trace`, which outlives this object. Null keeps nothing.
  void set_trace(StepTrace* trace) { trace_ = trace; }

  // Returns the end of a FIFO for which the first waiting lane waits, or nullptr if no lane waits.
  const FifoEnd* waiting_for() const;
  const LaneState* failed_lane() const { return failed_; }
  // Returns the bytes of the messages that the operation has published so far.
  std::uint64_t sent_bytes() const;

  // Returns the lanes that are resident and not done, as indices of the plan's lanes.
  std::span<const std::uint16_t> running() const { return running_; }
  // Returns the state of the plan's lane `index`.
  const LaneState& lane(std::uint16_t index) const { return lanes_[index]; }
  const Plan& plan() const { return *plan_; }
  const OperationState& state() const { return state_; }

 private:
  void add_lane();
  void end_lane(std::size_t place);
  bool reads_in_place(const LaneState& lane) const;
  bool copies_own() const;
  bool advance_local();
  Advance advance(LaneState& lane);
  Advance advance_traced(LaneState& lane);
  bool drained() const;

  Plan* plan_ = nullptr;
  OperationState state_;
  HostProcessor processor_;
  std::unique_ptr<std::byte[]> pulled_;  // NOLINT(modernize-avoid-c-arrays)
  std::vector<ReadAhead> read_ahead_;    // by step of the plan
  std::vector<LaneState> lanes_;
  std::vector<std::uint16_t> running_;  // resident lanes
  std::size_t turn_ = 0;                // in running_
  std::size_t begun_ = 0;               // lanes that are or were resident
  // Readers are told where data lies. They are not given the data.
  bool names_ = false;
  bool waits_ = false;
  const LaneState* failed_ = nullptr;
  StepTrace* trace_ = nullptr;
};

}  // namespace wreath
