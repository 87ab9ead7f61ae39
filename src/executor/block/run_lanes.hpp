// The executor as a block runs it: thread 0 decides by try_step, all threads move the bytes. One source for a GPU and
// for the host. A `Block` is one thread's view of its block:
//   unsigned block(), thread(), threads()
//   void barrier()                all threads of the block; orders their memory
//   void pause()                  there is nothing to do for now
//   std::uint64_t clock_ns()
//   std::byte* shared_memory()    the block's, of sizeof(BlockShared) bytes at least
//   kTogether                     threads that run in step, from thread 0 on
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/block/combine.hpp"
#include "kernels/block/primitives.hpp"
#include "kernels/kernels.hpp"
#include "src/executor/block/patience.hpp"
#include "src/executor/try_step.hpp"

namespace wreath {

// What a grid of blocks is given: block i runs lanes[i] to its end (LaneState::done or a fault) and, where it sent
// memory by reference, until its readers are done. `operation` is complete: call, plan and conversions, without
// single_copy_bytes. All its pointers and `lanes` are reachable from the device, and aligned to elements; all blocks
// run at once, since lanes wait for each other. A lane that is neither done nor at fault gave up: *stop was not zero,
// nothing moved for stall_ns (0: never), in any lane where `moved` tells, or look_limit looks in a row found nothing to
// do (0: any number). A grid of the same `lanes` goes on where they stopped; with look_limit = 1 none ever waits, and
// grids need not run at once. Of `arithmetic`, combine is not used.
struct LaneRun {
  Arithmetic arithmetic;
  OperationState operation;
  LaneState* lanes;
  const std::uint32_t* stop;
  std::uint64_t stall_ns;
  std::uint32_t look_limit;
  Counter* moved = nullptr;  // of each block: what it has done so far, for the host and the other blocks; null: untold
  std::uint32_t blocks = 0;  // of `moved`
};

// Of a lane with so many steps at most the block reads them ahead, into its shared memory.
inline constexpr std::uint32_t kStepsAhead = 96;

// What the threads of a block share.
struct BlockShared {
  BlockWork work;
  const std::byte* sources[kMaximumFanIn + 1];  // the leader's SourceList
  const std::byte* pair[2];                     // of `work` of other sources
  Step steps[kStepsAhead];
};

// The threads that move bytes, as a Block of the primitives: all but the leader's warp, which would do each piece of
// work twice, for the leader comes to it from elsewhere. A block of one warp has no others.
class Workers {
 public:
  template <typename Block>
  WREATH_HOST_DEVICE explicit Workers(const Block& block)
      : others_(block.threads() > Block::kTogether ? Block::kTogether : 0),
        thread_(block.thread() - others_),
        threads_(block.threads() - others_) {}
  // Of a thread that works().
  WREATH_HOST_DEVICE unsigned thread() const { return thread_; }
  WREATH_HOST_DEVICE unsigned threads() const { return threads_; }
  WREATH_HOST_DEVICE bool works() const { return thread_ < threads_; }

 private:
  unsigned others_;
  unsigned thread_;  // of others far beyond threads_
  unsigned threads_;
};

// A function of its own for each dtype.
template <typename T>
WREATH_NOINLINE WREATH_HOST_DEVICE void combine_elements(Workers workers, const Arithmetic& arithmetic,
                                                         const BlockWork& work) {
  block_combine<T>(workers, arithmetic, work);
}

WREATH_HOST_DEVICE inline void combine(const Workers& workers, const Arithmetic& of, const BlockWork& work) {
  for_dtype(of.dtype, [&](auto element) { combine_elements<decltype(element)>(workers, of, work); });
}

// By every thread of the block.
WREATH_HOST_DEVICE inline void do_work(const Workers& workers, const Arithmetic& arithmetic, const BlockWork& work) {
  if (!workers.works()) return;
  if (work.kind == BlockWork::Kind::Combine) {
    combine(workers, arithmetic, work);
  } else {
    block_copy(workers, work);
  }
}

// The leader's Processor: hands each piece of work to the block, and returns when it is done.
// The barriers order the block's stores before the leader's later release stores.
template <typename Block>
class BlockProcessor {
 public:
  static constexpr std::size_t kBlockBytes = 1U << 20;  // a tile at once: each piece of work costs two barriers
  static constexpr bool kStreams = false;
  static constexpr bool kCombinesInSlots = true;
  static constexpr bool kTraces = false;
  static constexpr bool kKeepsSources = true;
  static constexpr std::size_t kPulledBytes = 0;

  // The block's: in each thread's stack it would be 2 KiB for every thread that a GPU can run.
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
  WREATH_HOST_DEVICE void begin_slot(SendFifo&, std::size_t) {}
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
    if (work.sources != shared_.sources) {  // in the leader's own memory: one or two
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

// Runs the lane to its last step by advance(), which does what try_step does. False: gave up, or it failed.
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

// Until nobody reads what the lane sent by reference: the caller may change it afterwards.
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

// The lane to its end, from wherever an earlier grid left it: at lane.end only readers are missing.
template <typename Block, typename AdvanceLane>
WREATH_HOST_DEVICE inline void run_lane(const LaneRun& run, LaneState& lane, Patience<Block>& patience,
                                        const AdvanceLane& advance) {
  if (lane.done || lane.fault != Fault::None) return;
  if (lane.step < lane.end && !lead(patience, advance)) return;
  lane.step = lane.end;
  lane.done = !lane.referenced || await_readers(run, lane, patience);  // to wait again is no move
  if (lane.done) patience.moved();
}

// What each thread of the grid does, where advance(lane, processor) does what try_step does.
template <typename Block, typename AdvanceLane>
WREATH_HOST_DEVICE inline void run_lanes_by(Block& block, const LaneRun& run, const AdvanceLane& advance) {
  BlockShared& shared = *reinterpret_cast<BlockShared*>(block.shared_memory());
  if (block.thread() == 0) {
    BlockProcessor<Block> processor(block, run.arithmetic, shared);
    Patience<Block> patience(block, {run.stop, run.stall_ns, run.look_limit, run.moved, run.blocks});
    LaneState lane = run.lanes[block.block()];
    lane.arrived = 0;  // where they lie, another grid knew
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

// The steps of the block's lane, near: all threads bring them.
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

// By the lanes' steps.
template <typename Block>
WREATH_HOST_DEVICE inline void run_lanes(Block& block, const LaneRun& run) {
  const Step* const steps = bring_steps(block, run);
  run_lanes_by(block, run, [&](LaneState& lane, BlockProcessor<Block>& processor) {
    return try_step(run.operation, lane, processor, steps[lane.step - lane.first]);
  });
}

}  // namespace wreath
