// Computes each collective in a few lines of plain C++.
#include "tests/unit/schedule/promise.hpp"

#include <algorithm>

#include "src/schedule/values.hpp"

namespace wreath {

Promise::Promise(const Problem& problem, ReduceOp op, std::uint32_t parts,
                 const std::function<std::uint64_t(Rank, std::uint32_t)>& count_of, const std::function<float()>& next)
    : problem_(problem), op_(op) {
  for (Rank rank = 0; rank < problem.ranks; ++rank) {
    inputs_.emplace_back(parts);
    for (std::uint32_t part = 0; part < parts; ++part) {
      if (!has_input(rank, part)) continue;
      for (std::uint64_t i = 0; i < count_of(rank, part); ++i) inputs_.back()[part].push_back(next());
    }
  }
}

bool Promise::has_input(Rank rank, std::uint32_t part) const {
  switch (problem_.collective) {
    case Collective::Broadcast:
    case Collective::Scatter: return rank == problem_.root;
    case Collective::AllGather:
    case Collective::Gather: return part == static_cast<std::uint32_t>(rank);
    default: return true;
  }
}

bool Promise::has_output(Rank rank, std::uint32_t part) const {
  switch (problem_.collective) {
    case Collective::Reduce:
    case Collective::Gather: return rank == problem_.root;
    case Collective::ReduceScatter:
    case Collective::Scatter: return part == static_cast<std::uint32_t>(rank);
    default: return true;
  }
}

Promise::Elements Promise::output(Rank rank, std::uint32_t part) const {
  switch (problem_.collective) {
    case Collective::Broadcast:
    case Collective::Scatter: return input(problem_.root, part);
    case Collective::AllGather:
    case Collective::Gather: return input(static_cast<Rank>(part), part);
    case Collective::AllToAll: return input(static_cast<Rank>(part), static_cast<std::uint32_t>(rank));
    default: return sum(part);
  }
}

Promise::Elements Promise::sum(std::uint32_t part) const {
  Elements result;
  for (std::size_t element = 0; element < input(0, part).size(); ++element) {
    Elements values;
    for (Rank rank = 0; rank < problem_.ranks; ++rank) values.push_back(enter(rank, input(rank, part)[element]));
    result.push_back(finish(canonical_fold(std::span(values), [&](float a, float b) { return combine(a, b); })));
  }
  return result;
}

float Promise::enter(Rank rank, float value) const {
  return op_ == ReduceOp::PremultipliedSum ? value * static_cast<float>(rank % 3 + 2) : value;
}

float Promise::combine(float a, float b) const {
  return problem_.collective == Collective::Barrier ? std::max(a, b) : a + b;
}

float Promise::finish(float value) const {
  return op_ == ReduceOp::Avg ? value / static_cast<float>(problem_.ranks) : value;
}

}  // namespace wreath
