// The table of algorithms. A new one is its own file and one row here.
#include <array>
#include <bit>

#include "algorithms/rows.hpp"

namespace wreath {
namespace {

bool always(const Problem&) { return true; }
bool power_of_two(const Problem& problem) { return std::has_single_bit(static_cast<unsigned>(problem.ranks)); }
bool one_load(const Problem& problem) { return problem.ranks - 1 <= kMaximumFanIn; }

constexpr std::array kAlgorithms{
    Algorithm{"ring", Collective::AllReduce, Order::Ring, 1, kPartialMessages, always, ring_all_reduce,
              ring_all_reduce_cost},
    Algorithm{"two_shot", Collective::AllReduce, Order::Canonical, 3, 0, one_load, two_shot_all_reduce,
              two_shot_all_reduce_cost},
    Algorithm{"one_shot", Collective::AllReduce, Order::Canonical, 1, 0, one_load, one_shot_all_reduce,
              one_shot_all_reduce_cost},
    Algorithm{"recursive_doubling", Collective::AllReduce, Order::Canonical, 1, kPartialMessages, always,
              recursive_doubling_all_reduce, recursive_doubling_all_reduce_cost},
    Algorithm{"rabenseifner", Collective::AllReduce, Order::Canonical, 1, kPartialMessages | kSeveralParts, always,
              rabenseifner_all_reduce, rabenseifner_all_reduce_cost},
    Algorithm{"double_tree", Collective::AllReduce, Order::Tree, 2, kPartialMessages, always, double_tree_all_reduce,
              double_tree_all_reduce_cost},
    Algorithm{"direct", Collective::ReduceScatter, Order::Canonical, 2, kVarying, one_load, direct_reduce_scatter,
              direct_reduce_scatter_cost},
    Algorithm{"ring", Collective::ReduceScatter, Order::Ring, 1, kPartialMessages | kVarying, always,
              ring_reduce_scatter, ring_reduce_scatter_cost},
    Algorithm{"recursive_halving", Collective::ReduceScatter, Order::Canonical, 1,
              kPartialMessages | kSeveralParts | kVarying, always, recursive_halving_reduce_scatter,
              recursive_halving_reduce_scatter_cost},
    Algorithm{"direct", Collective::AllGather, Order::Canonical, 2, kVarying, always, direct_all_gather,
              direct_all_gather_cost},
    Algorithm{"ring", Collective::AllGather, Order::Canonical, 1, kVarying, always, ring_all_gather,
              ring_all_gather_cost},
    Algorithm{"bruck", Collective::AllGather, Order::Canonical, 1, kSeveralParts | kVarying, always, bruck_all_gather,
              bruck_all_gather_cost},
    Algorithm{"recursive_doubling", Collective::AllGather, Order::Canonical, 1, kSeveralParts | kVarying, power_of_two,
              recursive_doubling_all_gather, recursive_doubling_all_gather_cost},
    Algorithm{"direct", Collective::Broadcast, Order::Canonical, 1, 0, always, direct_broadcast, direct_broadcast_cost},
    Algorithm{"binomial", Collective::Broadcast, Order::Canonical, 1, 0, always, binomial_broadcast,
              binomial_broadcast_cost},
    Algorithm{"chain", Collective::Broadcast, Order::Canonical, 1, 0, always, chain_broadcast, chain_broadcast_cost},
    Algorithm{"direct", Collective::Reduce, Order::Canonical, 1, 0, one_load, direct_reduce, direct_reduce_cost},
    Algorithm{"binomial", Collective::Reduce, Order::Canonical, 1, kPartialMessages, always, binomial_reduce,
              binomial_reduce_cost},
    Algorithm{"chain", Collective::Reduce, Order::Ring, 1, kPartialMessages, always, chain_reduce, chain_reduce_cost},
    Algorithm{"direct", Collective::AllToAll, Order::Canonical, 2, kVarying, always, direct_all_to_all,
              direct_all_to_all_cost},
    Algorithm{"pairwise", Collective::AllToAll, Order::Canonical, 1, kVarying, always, pairwise_all_to_all,
              pairwise_all_to_all_cost},
    Algorithm{"bruck", Collective::AllToAll, Order::Canonical, 1, kSeveralParts, always, bruck_all_to_all,
              bruck_all_to_all_cost},
    Algorithm{"direct", Collective::Gather, Order::Canonical, 1, kVarying, always, direct_gather, direct_gather_cost},
    Algorithm{"binomial", Collective::Gather, Order::Canonical, 1, kSeveralParts, always, binomial_gather,
              binomial_gather_cost},
    Algorithm{"direct", Collective::Scatter, Order::Canonical, 1, kVarying, always, direct_scatter,
              direct_scatter_cost},
    Algorithm{"binomial", Collective::Scatter, Order::Canonical, 1, kSeveralParts, always, binomial_scatter,
              binomial_scatter_cost},
    Algorithm{"dissemination", Collective::Barrier, Order::Canonical, 1, kPartialMessages, always,
              dissemination_barrier, dissemination_barrier_cost},
};

}  // namespace

std::string_view name(Order order) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"canonical", "ring", "tree"};
  return kNames[static_cast<std::size_t>(order)];
}

std::span<const Algorithm> algorithms() noexcept { return kAlgorithms; }

const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept {
  for (const Algorithm& row : kAlgorithms) {
    if (row.collective == collective && row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace wreath
