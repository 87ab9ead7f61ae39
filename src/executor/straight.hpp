// Loops written by hand for some algorithms (kernels/straight), which may advance lanes in place of their steps.
#pragma once

#include <cstdint>

#include "src/executor/state.hpp"
#include "wreath/types.hpp"

namespace wreath {

class StepTrace;
struct HostProcessor;

enum class StraightRow : std::uint8_t {
  None,  // lanes are advanced by their steps
  RingAllReduce,
  RingReduceScatter,
  RingAllGather,
  TwoShotAllReduce,
  PointToPoint,
};

// Which loop, and where a rank is in it. Plain data, which also goes to a device.
struct StraightPlace {
  StraightRow row = StraightRow::None;
  int ranks = 1;  // two or more, where there is a loop
  Rank me = 0;
};

// A lane whose turn it is.
template <typename Processor>
struct StraightTurn {
  const OperationState& operation;  // all but its steps
  LaneState& lane;                  // not done
  Processor& processor;
  StepTrace* trace;  // null: none is kept
  int ranks;
  Rank me;
};

// Goes on with the lane's present tile, to its end if nothing has to be waited for, and leaves in the lane where it
// stopped: the place of the step in the lane's schedule, the tile, and what of the step is done. Returns what try_step
// does: Advanced, if anything moved.
using StraightLoop = Advance (*)(const StraightTurn<HostProcessor>& turn);

struct Straight {
  StraightLoop loop = nullptr;  // null: lanes are advanced by their steps
  int ranks = 1;
  Rank me = 0;
};

}  // namespace wreath
