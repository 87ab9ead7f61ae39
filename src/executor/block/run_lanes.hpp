// A block runs the executor: thread 0 decides by try_step, and all threads move the bytes. One source serves a GPU
// and the host. A `Block` is one thread's view of its block:
//   unsigned block(), thread(), threads()
//   void barrier()                waits for all threads of the block, and orders their memory
//   void pause()                  is called where there is nothing to do for now
//   std::uint64_t clock_ns()
//   std::byte* shared_memory()    returns the block's memory, of sizeof(BlockShared) bytes at least
//   kTogether                     is the number of threads that run in step, from thread 0 on
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/block/combine.hpp"
#include "kernels/block/primitives.hpp"
#include "kernels/kernels.hpp"
#include "src/executor/block/device_fifo.hpp"
#include "src/executor/block/patience.hpp"
#include "src/executor/try_step.hpp"

namespace wreath {

// The arguments of a grid of blocks. Block i runs lanes[i] to its end: LaneState::done or a fault. Where the lane sent
// memory by reference, the block also waits until its readers are done. `operation` is complete (call, plan and
// forms), without single_copy_bytes. All its pointers and `lanes` are reachable from the device, and aligned to
// elements. All blocks run at once, because lanes wait for each other. A lane that is neither done nor at fault gave
// up. Then *stop was not zero, or nothing moved for stall_ns (0: never), or look_limit looks in a row found nothing to
// do (0: any number). Where `moved` tells, a move in any lane counts. A grid of the same `lanes` goes on where they
// stopped. With look_limit = 1 no lane ever waits, and grids need not run at once. `arithmetic.combine` is not used.
struct LaneRun {
  Arithmetic arithmetic;
  OperationState operation;
  LaneState* lanes;
  const std::uint32_t* stop;
  std::uint64_t stall_ns;
  std::uint32_t look_limit;
  // The counter of each block says what it has done so far, for the host and the other blocks. Null means no counters.
  Counter* moved = nullptr;
  std::uint32_t blocks = 0;  // of `moved`
};

// A block reads the steps of a lane ahead, into its shared memory, if these are at most so many.
inline constexpr std::uint32_t kStepsAhead = 96;

// The state that the threads of a block share.
struct BlockShared {
  BlockWork work;
  const std::byte* sources[kMaximumFanIn + 1];  // the leader's SourceList
  // The sources of `work` that are not in `sources`.
  const std::byte* pair[2];
  Step steps[kStepsAhead];
};

// The threads that move bytes, as a Block of the primitives. The leader's warp does not work. It would do each piece of
// work twice, because the leader comes to it from elsewhere. In a block of one warp all threads work.
class Workers {
 public:
  template <typename Block>
  WREATH_HOST_DEVICE explicit Workers(const Block& block)
      : others_(block.threads() > Block::kTogether ? Block::kTogether : 0),
        thread_(block.thread() - others_),
        threads_(block.threads() - others_) {}
  // Returns the number of a thread that works().
  WREATH_HOST_DEVICE unsigned thread() const { return thread_; }
  WREATH_HOST_DEVICE unsigned threads() const { return threads_; }
  WREATH_HOST_DEVICE bool works() const { return thread_ < threads_; }

 private:
  unsigned others_;
  // A thread that does not work has a number far beyond threads_.
  unsigned thread_;
  unsigned threads_;
};

// This is a function of its own for each dtype.
template <typename T>
WREATH_NOINLINE WREATH_HOST_DEVICE void combine_elements(Workers workers, const Arithmetic& arithmetic,
                                                         const BlockWork& work) {
  block_combine<T>(workers, arithmetic, work);
}

WREATH_HOST_DEVICE inline void combine(const Workers& workers, const Arithmetic& of, const BlockWork& work) {
  for_dtype(of.dtype, [&](auto element) { combine_elements<decltype(element)>(workers, of, work); });
}

// Every thread of the block calls this.
WREATH_HOST_DEVICE inline void do_work(const Workers& workers, const Arithmetic& arithmetic, const BlockWork& work) {
  if (!workers.works()) return;
  if (work.kind == BlockWork::Kind::Combine) {
    combine(workers, arithmetic, work);
  } else {
    block_copy(workers, work);
  }
}

// The leader's Processor hands each piece of work to the block, and returns when the work is done. The barriers order
// the block's stores before the leader's later release stores.
template <typename Block>
class BlockProcessor {
 public:
  using Send = DeviceSendFifo;
  using Recv = DeviceRecvFifo;
  // A tile is moved at once, because each piece of work costs two barriers.
  static constexpr std::size_t kBlockBytes = 1U << 20;
  static constexpr bool kStreams = false;
  static constexpr bool kCombinesInSlots = true;
  static constexpr bool kLands = false;
  static constexpr bool kTraces = false;
  static constexpr bool kKeepsSources = true;
  static constexpr std::size_t kPulledBytes = 0;

  // The list is the block's. In each thread's stack it would take 2 KiB for every thread that a GPU can run.
  struct SourceList {
    WREATH_HOST_DEVICE explicit SourceList(BlockProcessor& processor) : data(processor.shared_.sources) {}
    const std::byte** data;
  };

  WREATH_HOST_DEVICE BlockProcessor(Block& block, const Arithmetic& arithmetic, BlockShared& shared)
      : block_(block), workers_(block), arithmetic_(arithmetic), shared_(shared) {}
  WREATH_HOST_DEVICE void combine(std::byte* target, Form target_form, const std::byte* const* sources, int k,
                                  Operands operands, std::size_t elements) {
    run({BlockWork::Kind::Combine, target_form, target, sources, k, operands, elements});
  }
  WREATH_HOST_DEVICE void copy(std::byte* target, const std::byte* source, std::size_t bytes) {
    run({BlockWork::Kind::Copy, Form::Data, target, &source, 1, Operands{}, bytes});
  }
  WREATH_HOST_DEVICE std::byte* begin_slot(SendFifo& fifo, std::size_t bytes) {
    return fifo.staging + staging_place(fifo, bytes, kLeastRingBytes);
  }
  WREATH_HOST_DEVICE void end_slot() {}
  WREATH_HOST_DEVICE void fill(std::byte* slot, const std::byte* source, std::size_t bytes) {
    copy(slot, source, bytes);
  }
  // Ends the other threads.
  WREATH_HOST_DEVICE void stop() {
    shared_.work.kind = BlockWork::Kind::Stop;
    block_.barrier();
  }

 private:
  WREATH_NOINLINE WREATH_HOST_DEVICE void run(const BlockWork& work) {
    shared_.work = work;
    // Other sources are in the leader's own memory: one or two.
    if (work.sources != shared_.sources) {
      for (int i = 0; i < work.k; ++i) shared_.pair[i] = work.sources[i];
      shared_.work.sources = shared_.pair;
    }
    block_.barrier();
    do_work(workers_, arithmetic_, shared_.work);
    block_.barrier();
  }

  Block& block_;
  Workers workers_;
  const Arithmetic& arithmetic_;
  BlockShared& shared_;
};

// Runs the lane to its last step by advance(), which does what try_step does. Returns false where it gave up or failed.
template <typename Block, typename AdvanceLane>
WREATH_HOST_DEVICE inline bool lead(Patience<Block>& patience, const AdvanceLane& advance) {
  for (;;) {
    switch (advance()) {
      case Advance::Failed: return false;
      case Advance::Done: patience.moved(); return true;
      case Advance::Advanced: patience.moved(); break;
      case Advance::Blocked:
        if (!patience.wait()) return false;
    }
  }
}

// Waits until nobody reads what the lane sent by reference, because the caller may change it afterwards. Returns false
// where it gave up.
template <typename Block>
WREATH_HOST_DEVICE inline bool await_readers(const LaneRun& run, const LaneState& lane, Patience<Block>& patience) {
  for (std::uint32_t i = lane.first; i < lane.end; ++i) {
    const Step& step = run.operation.steps[i];
    for (std::uint32_t out = step.out_first; out < step.out_first + std::uint32_t{step.out_count}; ++out) {
      while (!drained(*run.operation.targets[out])) {
        if (!patience.wait()) return false;
      }
    }
  }
  acquire_looks();
  return true;
}

// Runs the lane to its end, from wherever an earlier grid left it. At lane.end only readers are missing.
template <typename Block, typename AdvanceLane>
WREATH_HOST_DEVICE inline void run_lane(const LaneRun& run, LaneState& lane, Patience<Block>& patience,
                                        const AdvanceLane& advance) {
  if (lane.done || lane.fault != Fault::None) return;
  if (lane.step < lane.end && !lead(patience, advance)) return;
  lane.step = lane.end;
  // Another wait for readers does not count as a move.
  lane.done = !lane.referenced || await_readers(run, lane, patience);
  if (lane.done) patience.moved();
}

// Runs one thread of the grid. advance(lane, processor) does what try_step does.
template <typename Block, typename AdvanceLane>
WREATH_HOST_DEVICE inline void run_lanes_by(Block& block, const LaneRun& run, const AdvanceLane& advance) {
  BlockShared& shared = *reinterpret_cast<BlockShared*>(block.shared_memory());
  if (block.thread() == 0) {
    BlockProcessor<Block> processor(block, run.arithmetic, shared);
    Patience<Block> patience(block, {run.stop, run.stall_ns, run.look_limit, run.moved, run.blocks});
    LaneState lane = run.lanes[block.block()];
    // Only the earlier grid knew where the messages lie, so all are looked for again.
    lane.arrived = 0;
    run_lane(run, lane, patience, [&] { return advance(lane, processor); });
    run.lanes[block.block()] = lane;
    return processor.stop();
  }
  const Workers workers(block);
  for (block.barrier(); shared.work.kind != BlockWork::Kind::Stop; block.barrier()) {
    do_work(workers, run.arithmetic, shared.work);
    block.barrier();
  }
}

// Returns the steps of the block's lane. All threads copy them into shared memory, if they fit.
template <typename Block>
WREATH_HOST_DEVICE inline const Step* bring_steps(Block& block, const LaneRun& run) {
  const LaneState& lane = run.lanes[block.block()];
  const Step* const steps = run.operation.steps + lane.first;
  const std::uint32_t count = lane.end - lane.first;
  const bool fits = count <= kStepsAhead;
  BlockShared& shared = *reinterpret_cast<BlockShared*>(block.shared_memory());
  for (std::uint32_t i = block.thread(); fits && i < count; i += block.threads()) shared.steps[i] = steps[i];
  block.barrier();
  return fits ? shared.steps : steps;
}

// Runs the lanes by their steps.
template <typename Block>
WREATH_HOST_DEVICE inline void run_lanes(Block& block, const LaneRun& run) {
  const Step* const steps = bring_steps(block, run);
  run_lanes_by(block, run, [&](LaneState& lane, BlockProcessor<Block>& processor) {
    return try_step(run.operation, lane, processor, steps[lane.step - lane.first]);
  });
}

}  // namespace wreath
