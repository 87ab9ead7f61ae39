// The builders that registry.cpp lists, one file each.
#pragma once

#include "wreath/algorithm.hpp"

namespace wreath {

Schedule ring_all_reduce(const Problem& problem, Rank me);
Schedule two_shot_all_reduce(const Problem& problem, Rank me);
Schedule one_shot_all_reduce(const Problem& problem, Rank me);

}  // namespace wreath
