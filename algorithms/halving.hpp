// Recursive halving over the teams of a fold is the first half of Rabenseifner's all-reduce, and a reduce-scatter.
#pragma once

#include <vector>

#include "algorithms/fold.hpp"
#include "wreath/schedule.hpp"

namespace wreath {

// The parts of a vector, or the blocks of ranks, in the order in which halving cuts them. Every team's own parts are
// together, and teams are ordered by their bits reversed. So the parts that a team keeps are neighbours at each step,
// and so are those that it gives away.
struct Halving {
  // Returns one part a team, with part i in place i.
  static Halving of_teams(const Fold& fold);
  // Returns every rank's block.
  static Halving of_blocks(const Fold& fold);

  // A range of places of `parts`: [first, first + count).
  struct Held {
    int first;
    int count;
  };
  // Returns what `team` holds before each step, and in the end.
  std::vector<Held> held_by(int team) const;
  Chunks chunks(Buffer buffer, Held held) const;

  int power;
  std::vector<int> parts;
  // The first place of each team, by team in that order. The end follows as the last entry.
  std::vector<int> starts;
};

// Adds the lines of the leader `me`. They make its team's own parts, the last of held_by(), canonical sums in `last`.
// Sums on the way are in Partial, part by part in their places.
void halve(Lane& lane, const Fold& fold, const Halving& halving, Rank me, Buffer last);

// Returns the number of messages that follow each other in halving. They are those of team 0, which holds most.
int halving_steps(const Halving& halving);

}  // namespace wreath
