// The table of algorithms: a new one is its own file and one row here.
#include <array>

#include "algorithms/rows.hpp"

namespace wreath {
namespace {

bool always(const Problem&) { return true; }
bool one_load(const Problem& problem) { return problem.ranks - 1 <= kMaximumFanIn; }

constexpr std::array kAlgorithms{
    Algorithm{"ring", Collective::AllReduce, Order::Ring, 1, kPartialMessages, always, ring_all_reduce,
              ring_all_reduce_cost},
    Algorithm{"two_shot", Collective::AllReduce, Order::Canonical, 3, 0, one_load, two_shot_all_reduce,
              two_shot_all_reduce_cost},
    Algorithm{"one_shot", Collective::AllReduce, Order::Canonical, 1, 0, one_load, one_shot_all_reduce,
              one_shot_all_reduce_cost},
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
