// Loops written by hand (kernels/straight) as a block runs them: in place of the interpreter, over the same lanes.
#pragma once

#include "kernels/block/run_lanes.hpp"
#include "kernels/straight/loops.hpp"

namespace wreath {

template <auto kLoop, typename Block>
WREATH_HOST_DEVICE inline void run_loop(Block& block, const LaneRun& run) {
  run_lanes_by(block, run, [&](LaneState& lane, BlockProcessor<Block>& processor) {
    return kLoop({run.operation, lane, processor, nullptr, run.straight.ranks, run.straight.me});
  });
}

// A LaneRun whose `straight` names a loop.
template <typename Block>
WREATH_HOST_DEVICE inline void run_straight(Block& block, const LaneRun& run) {
  using Processor = BlockProcessor<Block>;
  switch (run.straight.row) {
    case StraightRow::None: return;
    case StraightRow::RingAllReduce: return run_loop<straight_ring_all_reduce<Processor>>(block, run);
    case StraightRow::RingReduceScatter: return run_loop<straight_ring_reduce_scatter<Processor>>(block, run);
    case StraightRow::RingAllGather: return run_loop<straight_ring_all_gather<Processor>>(block, run);
    case StraightRow::TwoShotAllReduce: return run_loop<straight_two_shot_all_reduce<Processor>>(block, run);
    case StraightRow::PointToPoint: return run_loop<straight_point_to_point<Processor>>(block, run);
  }
}

}  // namespace wreath
