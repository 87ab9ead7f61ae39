// A block runs handwritten loops (src/executor/handwritten) in place of the interpreter, over the same lanes.
#pragma once

#include "src/executor/block/run_lanes.hpp"
#include "src/executor/handwritten/point_to_point.hpp"
#include "src/executor/handwritten/ring.hpp"
#include "src/executor/handwritten/two_shot.hpp"

namespace wreath {

template <auto kLoop, typename Block>
WREATH_HOST_DEVICE inline void run_loop(Block& block, const LaneRun& run) {
  run_lanes_by(block, run, [&](LaneState& lane, BlockProcessor<Block>& processor) {
    return kLoop({run.operation, lane, processor, nullptr});
  });
}

// Runs a LaneRun whose operation names a loop.
template <typename Block>
WREATH_HOST_DEVICE inline void run_handwritten(Block& block, const LaneRun& run) {
  using Processor = BlockProcessor<Block>;
  switch (run.operation.loop) {
    case HandwrittenLoop::None: return;
    case HandwrittenLoop::RingAllReduce: return run_loop<ring_all_reduce_by_hand<Processor>>(block, run);
    case HandwrittenLoop::RingReduceScatter: return run_loop<ring_reduce_scatter_by_hand<Processor>>(block, run);
    case HandwrittenLoop::RingAllGather: return run_loop<ring_all_gather_by_hand<Processor>>(block, run);
    case HandwrittenLoop::TwoShotAllReduce: return run_loop<two_shot_all_reduce_by_hand<Processor>>(block, run);
    case HandwrittenLoop::PointToPoint: return run_loop<point_to_point_by_hand<Processor>>(block, run);
  }
}

}  // namespace wreath
