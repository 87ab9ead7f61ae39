// The table of loops written by hand, and the loops for this CPU.
#include "kernels/straight/straight.hpp"

#include "kernels/straight/loops.hpp"
#include "src/executor/host.hpp"

namespace wreath {
namespace {

struct LoopRow {
  Collective collective;
  std::string_view algorithm;
  StraightRow row;
  StraightLoop loop;
};

constexpr LoopRow kLoopRows[] = {
    {Collective::AllReduce, "ring", StraightRow::RingAllReduce, straight_ring_all_reduce<HostProcessor>},
    {Collective::AllReduce, "two_shot", StraightRow::TwoShotAllReduce, straight_two_shot_all_reduce<HostProcessor>},
    {Collective::ReduceScatter, "ring", StraightRow::RingReduceScatter, straight_ring_reduce_scatter<HostProcessor>},
    {Collective::AllGather, "ring", StraightRow::RingAllGather, straight_ring_all_gather<HostProcessor>},
    {Collective::Exchange, "", StraightRow::PointToPoint, straight_point_to_point<HostProcessor>},
};

}  // namespace

StraightRow straight_row(Collective collective, std::string_view algorithm) noexcept {
  for (const LoopRow& row : kLoopRows) {
    if (row.collective == collective && row.algorithm == algorithm) return row.row;
  }
  return StraightRow::None;
}

StraightLoop straight_loop(StraightRow row) noexcept {
  for (const LoopRow& known : kLoopRows) {
    if (known.row == row) return known.loop;
  }
  return nullptr;
}

StraightLoop find_straight(Collective collective, std::string_view algorithm) noexcept {
  return straight_loop(straight_row(collective, algorithm));
}

}  // namespace wreath
