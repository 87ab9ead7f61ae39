// Folding turns any number of ranks into a power of two of teams, as the canonical order needs it.
#pragma once

#include <bit>

#include "wreath/schedule.hpp"

namespace wreath {

// The first 2 * extra of n = power + extra ranks are teams of two: (2i, 2i + 1) is team i. Every other rank is a team
// of its own. Teams follow each other in rank order.
struct Fold {
  explicit Fold(int ranks)
      : power(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))), extra(ranks - power) {}

  bool is_pair(int team) const { return team < extra; }
  // Returns the lowest rank of a team, which acts for it. For team `power`, returns the number of ranks.
  Rank leader(int team) const { return team < extra ? 2 * team : team + extra; }
  int team(Rank rank) const { return rank < 2 * extra ? rank / 2 : rank - extra; }
  // Returns whether `rank` is the second of a pair, for which the leader acts.
  bool follows(Rank rank) const { return rank < 2 * extra && rank % 2 == 1; }
  // Returns the form of a leader's first message of a sum.
  Form first_form(int team) const { return is_pair(team) ? Form::Partial : Form::Data; }

  // Returns the messages that folding adds to the longest chain of exchanges by every bit and their two ends. Such a
  // chain begins at one team and ends at the team of all other bits. So both ends are pairs only if more than half of
  // the teams are.
  int more_steps() const { return extra == 0 ? 0 : 2 * extra > power ? 2 : 1; }

  int power;
  int extra;
};

}  // namespace wreath
