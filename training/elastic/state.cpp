// This file plans which rank sends the training state to which, and sends it.
#include "training/elastic/state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "wreath/group.hpp"

namespace wreath::training {

namespace {

using Holders = std::map<int, std::vector<int>>;  // ranks, by part

Holders holders_at(std::span<const Holding> holdings, std::int64_t steps) {
  Holders holders;
  for (std::size_t rank = 0; rank < holdings.size(); ++rank) {
    const Holding& holding = holdings[rank];
    const bool can_hold = holding.steps == steps || (holding.next_is_ready && holding.steps + 1 == steps);
    if (holding.part >= 0 && can_hold) holders[holding.part].push_back(static_cast<int>(rank));
  }
  return holders;
}

// Calls visit with each run of values, in the order of the copy.
void for_each_span(const Shard& shard, const std::function<void(std::span<float>)>& visit) {
  for (const Piece& piece : shard.pieces) visit(piece.value);
  for (const Optimizer::Moment& moment : shard.moments) visit(moment.values);
}

std::size_t size_of_copy(const Shard& shard) {
  std::size_t size = 0;
  for_each_span(shard, [&](std::span<float> values) { size += values.size(); });
  return size;
}

}  // namespace

Result<StatePlan> plan_state(std::span<const Holding> holdings, std::span<const int> needs) {
  std::set<std::int64_t, std::greater<>> steps;
  for (const Holding& holding : holdings) {
    if (holding.part >= 0) steps.insert(holding.steps);
  }
  std::string missing = "no rank is left that holds state whole";
  for (const std::int64_t candidate : steps) {
    const Holders holders = holders_at(holdings, candidate);
    const auto lacking = std::ranges::find_if(needs, [&](int part) { return part >= 0 && !holders.contains(part); });
    if (lacking != needs.end()) {
      missing = fmt::format("no rank is left that holds part {} of the model after {} steps", *lacking, candidate);
      continue;
    }
    StatePlan plan{candidate, std::vector<int>(needs.size(), -1)};
    std::map<int, std::size_t> turns;
    for (std::size_t rank = 0; rank < needs.size(); ++rank) {
      if (needs[rank] < 0) continue;
      const std::vector<int>& of_part = holders.at(needs[rank]);
      const bool own = std::ranges::find(of_part, static_cast<int>(rank)) != of_part.end();
      plan.sources[rank] = own ? static_cast<int>(rank) : of_part[turns[needs[rank]]++ % of_part.size()];
    }
    return plan;
  }
  return Error{ErrorCode::Unavailable, missing};
}

std::vector<float> copy_of(const Shard& shard) {
  std::vector<float> copy;
  copy.reserve(size_of_copy(shard));
  for_each_span(shard, [&](std::span<float> values) { copy.insert(copy.end(), values.begin(), values.end()); });
  return copy;
}

Status copy_into(const Shard& shard, std::span<const float> values) {
  if (const std::size_t size = size_of_copy(shard); values.size() != size) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("training state of {} values does not fit a shard of {}", values.size(), size)};
  }
  for_each_span(shard, [&](std::span<float> into) {
    std::copy_n(values.begin(), into.size(), into.begin());
    values = values.subspan(into.size());
  });
  return {};
}

Status move_state(Communicator& ranks, const StatePlan& plan, std::span<const float> held, std::span<float> received) {
  const int own = ranks.rank();
  wreath::Group group;
  bool any = false;
  for (std::size_t rank = 0; rank < plan.sources.size(); ++rank) {
    const int to = static_cast<int>(rank);
    if (plan.sources[rank] != own || to == own) continue;
    WREATH_TRY(ranks.send(held, to));
    any = true;
  }
  if (const int from = plan.sources[static_cast<std::size_t>(own)]; from >= 0 && from != own) {
    WREATH_TRY(ranks.recv(received, from));
    any = true;
  }
  return any ? group.run() : Status();
}

}  // namespace wreath::training
