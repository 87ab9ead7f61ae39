// A loop written by hand for one algorithm, which may advance a lane in place of its steps.
#pragma once

#include <cstdint>

#include "src/executor/state.hpp"
#include "wreath/types.hpp"

namespace wreath {

class StepTrace;
struct HostProcessor;

// A lane whose turn it is.
struct StraightTurn {
  const OperationState& operation;  // all but its steps
  LaneState& lane;                  // not done
  HostProcessor& processor;
  StepTrace* trace;      // null: none is kept
  std::uint16_t number;  // of the lane, which its messages carry
  int ranks;             // two or more
  Rank me;
};

// Goes on with the lane's present tile, to its end if nothing has to be waited for, and leaves in the lane where it
// stopped: the place of the step in the lane's schedule, the tile, and what of the step is done. Returns what try_step
// does: Advanced, if anything moved.
using StraightLoop = Advance (*)(const StraightTurn& turn);

struct Straight {
  StraightLoop loop = nullptr;  // null: lanes are advanced by their steps
  int ranks = 1;
  Rank me = 0;
};

}  // namespace wreath
