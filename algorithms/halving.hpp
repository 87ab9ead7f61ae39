// Recursive halving over the teams of a fold: the first half of Rabenseifner's all-reduce, and a reduce-scatter.
#pragma once

#include <vector>

#include "algorithms/fold.hpp"
#include "wreath/schedule.hpp"

namespace wreath {

// The parts of a vector, or the blocks of ranks, in the order in which halving cuts them: every team's own parts
// together, teams by their bits reversed. So what a team keeps and what it gives away are neighbours at each step.
struct Halving {
  // One part a team, part i in place i; or every rank's block.
  static Halving of_teams(const Fold& fold);
  static Halving of_blocks(const Fold& fold);

  // Places [first, first + count) of `parts`.
  struct Held {
    int first;
    int count;
  };
  // What `team` holds before each step, and in the end.
  std::vector<Held> held_by(int team) const;
  Chunks chunks(Buffer buffer, Held held) const;

  int power;
  std::vector<int> parts;
  std::vector<int> starts;  // by team, in that order: its first place; then the end
};

// What the leader `me` does so that its team's own parts, the last of held_by(), are canonical sums in `last`. Sums on
// the way are in Partial, part by part in their places.
void halve(Lane& lane, const Fold& fold, const Halving& halving, Rank me, Buffer last);

// The messages that follow each other in halving: those of team 0, which holds most.
int halving_steps(const Halving& halving);

}  // namespace wreath
