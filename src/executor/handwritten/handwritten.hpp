// Ring, two-shot, sends and receives as text-book loops over the FIFOs and kernels that steps use: the yardstick that
// the executor of steps is held to. A communicator whose executor is "handwritten" runs them.
#pragma once

#include <string_view>

#include "src/executor/state.hpp"
#include "wreath/types.hpp"

namespace wreath {

class StepTrace;
struct HostProcessor;

inline constexpr std::string_view kStepsExecutor = "steps";
inline constexpr std::string_view kHandwrittenExecutor = "handwritten";

// The loop of a row of the registry; of sends and receives with Collective::Exchange and no name. It does what the
// lowered schedule says, in its order: lanes, FIFOs and trace are the same. None: there is no such loop.
HandwrittenLoop handwritten_loop(Collective collective, std::string_view algorithm) noexcept;

// Goes on with the lane's present tile by `operation.loop`, to its end if nothing has to be waited for, and leaves in
// the lane where it stopped: the place of the step in the lane's schedule, the tile, and what of the step is done.
// Returns what try_step does: Advanced, if anything moved. `trace` may be null: none is kept.
Advance advance_handwritten(const OperationState& operation, LaneState& lane, HostProcessor& processor,
                            StepTrace* trace);

}  // namespace wreath
