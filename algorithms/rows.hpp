// Declares the builders that registry.cpp lists. Each has one file, in the folder of its collective.
#pragma once

#include "wreath/algorithm.hpp"

namespace wreath {

Schedule ring_all_reduce(const Problem& problem, Rank me);
Cost ring_all_reduce_cost(const Problem& problem);
Schedule two_shot_all_reduce(const Problem& problem, Rank me);
Cost two_shot_all_reduce_cost(const Problem& problem);
Schedule one_shot_all_reduce(const Problem& problem, Rank me);
Cost one_shot_all_reduce_cost(const Problem& problem);
Schedule recursive_doubling_all_reduce(const Problem& problem, Rank me);
Cost recursive_doubling_all_reduce_cost(const Problem& problem);
Schedule rabenseifner_all_reduce(const Problem& problem, Rank me);
Cost rabenseifner_all_reduce_cost(const Problem& problem);
Schedule double_tree_all_reduce(const Problem& problem, Rank me);
Cost double_tree_all_reduce_cost(const Problem& problem);

Schedule direct_reduce_scatter(const Problem& problem, Rank me);
Cost direct_reduce_scatter_cost(const Problem& problem);
Schedule ring_reduce_scatter(const Problem& problem, Rank me);
Cost ring_reduce_scatter_cost(const Problem& problem);
Schedule recursive_halving_reduce_scatter(const Problem& problem, Rank me);
Cost recursive_halving_reduce_scatter_cost(const Problem& problem);

Schedule direct_all_gather(const Problem& problem, Rank me);
Cost direct_all_gather_cost(const Problem& problem);
Schedule ring_all_gather(const Problem& problem, Rank me);
Cost ring_all_gather_cost(const Problem& problem);
Schedule bruck_all_gather(const Problem& problem, Rank me);
Cost bruck_all_gather_cost(const Problem& problem);
Schedule recursive_doubling_all_gather(const Problem& problem, Rank me);
Cost recursive_doubling_all_gather_cost(const Problem& problem);

Schedule direct_broadcast(const Problem& problem, Rank me);
Cost direct_broadcast_cost(const Problem& problem);
Schedule binomial_broadcast(const Problem& problem, Rank me);
Cost binomial_broadcast_cost(const Problem& problem);
Schedule chain_broadcast(const Problem& problem, Rank me);
Cost chain_broadcast_cost(const Problem& problem);

Schedule direct_reduce(const Problem& problem, Rank me);
Cost direct_reduce_cost(const Problem& problem);
Schedule binomial_reduce(const Problem& problem, Rank me);
Cost binomial_reduce_cost(const Problem& problem);
Schedule chain_reduce(const Problem& problem, Rank me);
Cost chain_reduce_cost(const Problem& problem);

Schedule direct_all_to_all(const Problem& problem, Rank me);
Cost direct_all_to_all_cost(const Problem& problem);
Schedule pairwise_all_to_all(const Problem& problem, Rank me);
Cost pairwise_all_to_all_cost(const Problem& problem);
Schedule bruck_all_to_all(const Problem& problem, Rank me);
Cost bruck_all_to_all_cost(const Problem& problem);

Schedule direct_gather(const Problem& problem, Rank me);
Cost direct_gather_cost(const Problem& problem);
Schedule binomial_gather(const Problem& problem, Rank me);
Cost binomial_gather_cost(const Problem& problem);

Schedule direct_scatter(const Problem& problem, Rank me);
Cost direct_scatter_cost(const Problem& problem);
Schedule binomial_scatter(const Problem& problem, Rank me);
Cost binomial_scatter_cost(const Problem& problem);

Schedule dissemination_barrier(const Problem& problem, Rank me);
Cost dissemination_barrier_cost(const Problem& problem);

}  // namespace wreath
