// The loops that straight.cpp lists.
#pragma once

#include "src/executor/straight.hpp"

namespace wreath {

Advance straight_ring_all_reduce(const StraightTurn& turn);
Advance straight_ring_reduce_scatter(const StraightTurn& turn);
Advance straight_ring_all_gather(const StraightTurn& turn);
Advance straight_two_shot_all_reduce(const StraightTurn& turn);
Advance straight_point_to_point(const StraightTurn& turn);

}  // namespace wreath
