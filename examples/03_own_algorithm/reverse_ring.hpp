// The reverse ring is a ring that turns the other way. It shows what a new algorithm looks like.
#pragma once

#include "wreath/algorithm.hpp"

namespace wreath {

// Returns the schedule of a ring all-reduce towards lower ranks. With n ranks and S bytes it takes 2(n-1) steps. Every
// rank sends and receives 2(n-1)/n S and reduces (n-1)/n S, like the ring it mirrors (Patarasuk and Yuan, JPDC 69(2),
// 2009).
Schedule reverse_ring_all_reduce(const Problem& problem, Rank me);
Cost reverse_ring_cost(const Problem& problem);

}  // namespace wreath
