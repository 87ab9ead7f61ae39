// The table of loops written by hand.
#include "kernels/cpu/straight/straight.hpp"

#include "kernels/cpu/straight/loops.hpp"

namespace wreath {
namespace {

struct Row {
  Collective collective;
  std::string_view algorithm;
  StraightLoop loop;
};

constexpr Row kRows[] = {
    {Collective::AllReduce, "ring", straight_ring_all_reduce},
    {Collective::AllReduce, "two_shot", straight_two_shot_all_reduce},
    {Collective::ReduceScatter, "ring", straight_ring_reduce_scatter},
    {Collective::AllGather, "ring", straight_ring_all_gather},
    {Collective::Exchange, "", straight_point_to_point},
};

}  // namespace

StraightLoop find_straight(Collective collective, std::string_view algorithm) noexcept {
  for (const Row& row : kRows) {
    if (row.collective == collective && row.algorithm == algorithm) return row.loop;
  }
  return nullptr;
}

}  // namespace wreath
