// The builders that registry.cpp lists, one file each.
#pragma once

#include "wreath/algorithm.hpp"

namespace wreath {

Schedule ring_all_reduce(const Problem& problem, Rank me);
Cost ring_all_reduce_cost(const Problem& problem);
Schedule two_shot_all_reduce(const Problem& problem, Rank me);
Cost two_shot_all_reduce_cost(const Problem& problem);
Schedule one_shot_all_reduce(const Problem& problem, Rank me);
Cost one_shot_all_reduce_cost(const Problem& problem);

}  // namespace wreath
