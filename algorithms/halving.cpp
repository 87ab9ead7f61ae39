// Recursive halving goes low bit first, so that sums form in canonical order.
#include "algorithms/halving.hpp"

#include "algorithms/words.hpp"

namespace wreath {
namespace {

int reversed(int team, int power) {
  int result = 0;
  for (int bit = 1; bit < power; bit *= 2) result = 2 * result + ((team & bit) != 0 ? 1 : 0);
  return result;
}

}  // namespace

Halving Halving::of_teams(const Fold& fold) { return {fold.power, stretch(0, fold.power), stretch(0, fold.power + 1)}; }

Halving Halving::of_blocks(const Fold& fold) {
  Halving halving{fold.power, {}, {0}};
  for (int i = 0; i < fold.power; ++i) {
    const int team = reversed(i, fold.power);
    for (Rank rank = fold.leader(team); rank < fold.leader(team + 1); ++rank) halving.parts.push_back(rank);
    halving.starts.push_back(static_cast<int>(halving.parts.size()));
  }
  return halving;
}

std::vector<Halving::Held> Halving::held_by(int team) const {
  std::vector<Held> result;
  int first = 0;
  for (int teams = power;; teams /= 2) {
    const auto start = [&](int place) { return starts[static_cast<std::size_t>(place)]; };
    result.push_back({start(first), start(first + teams) - start(first)});
    if (teams == 1) return result;
    const int bit = power / teams;
    if ((team & bit) != 0) first += teams / 2;
  }
}

Chunks Halving::chunks(Buffer buffer, Held held) const {
  const std::span<const int> all(parts);
  return wreath::chunks(buffer, all.subspan(static_cast<std::size_t>(held.first), static_cast<std::size_t>(held.count)),
                        held.first);
}

void halve(Lane& lane, const Fold& fold, const Halving& halving, Rank me, Buffer last) {
  const int team = fold.team(me);
  const std::vector<Halving::Held> mine = halving.held_by(team);
  Buffer sums = Buffer::Input;
  if (fold.is_pair(team)) {
    sums = Buffer::Partial;
    lane.recv_reduce(me + 1, halving.chunks(Buffer::Input, mine[0]), halving.chunks(sums, mine[0]));
  }
  std::size_t step = 0;
  for (int bit = 1; bit < fold.power; bit *= 2) {
    const int partner = team ^ bit;
    const Halving::Held kept = mine[++step], given = halving.held_by(partner)[step];
    const Buffer target = 2 * bit == fold.power ? last : Buffer::Partial;
    exchange(lane, fold.leader(partner), halving.chunks(sums, given),
             {.from = fold.leader(partner),
              .target = halving.chunks(target, kept),
              .source = halving.chunks(sums, kept),
              .incoming = {.form = bit == 1 ? fold.first_form(partner) : Form::Partial}});
    sums = Buffer::Partial;
  }
}

int halving_steps(const Halving& halving) {
  const std::vector<Halving::Held> held = halving.held_by(0);
  int steps = 0;
  for (std::size_t i = 1; i < held.size(); ++i) steps += messages(held[i].count);
  return steps;
}

}  // namespace wreath
