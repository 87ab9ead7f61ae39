// Defines the table of handwritten loops, and runs the loops on this CPU.
#include "src/executor/handwritten/handwritten.hpp"

#include "src/executor/handwritten/point_to_point.hpp"
#include "src/executor/handwritten/ring.hpp"
#include "src/executor/handwritten/two_shot.hpp"
#include "src/executor/host.hpp"

namespace wreath {
namespace {

struct LoopRow {
  Collective collective;
  std::string_view algorithm;
  HandwrittenLoop loop;
};

constexpr LoopRow kLoopRows[] = {
    {Collective::AllReduce, "ring", HandwrittenLoop::RingAllReduce},
    {Collective::AllReduce, "two_shot", HandwrittenLoop::TwoShotAllReduce},
    {Collective::ReduceScatter, "ring", HandwrittenLoop::RingReduceScatter},
    {Collective::AllGather, "ring", HandwrittenLoop::RingAllGather},
    {Collective::Exchange, "", HandwrittenLoop::PointToPoint},
};

}  // namespace

HandwrittenLoop handwritten_loop(Collective collective, std::string_view algorithm) noexcept {
  for (const LoopRow& row : kLoopRows) {
    if (row.collective == collective && row.algorithm == algorithm) return row.loop;
  }
  return HandwrittenLoop::None;
}

Advance advance_handwritten(const OperationState& operation, LaneState& lane, HostProcessor& processor,
                            StepTrace* trace) {
  HandwrittenLane<HostProcessor> turn(operation, lane, processor, trace);
  switch (operation.loop) {
    case HandwrittenLoop::None: break;
    case HandwrittenLoop::RingAllReduce: return ring_all_reduce_by_hand(turn);
    case HandwrittenLoop::RingReduceScatter: return ring_reduce_scatter_by_hand(turn);
    case HandwrittenLoop::RingAllGather: return ring_all_gather_by_hand(turn);
    case HandwrittenLoop::TwoShotAllReduce: return two_shot_all_reduce_by_hand(turn);
    case HandwrittenLoop::PointToPoint: return point_to_point_by_hand(turn);
  }
  return Advance::Failed;
}

}  // namespace wreath
