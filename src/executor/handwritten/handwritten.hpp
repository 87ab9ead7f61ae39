// Runs ring, two-shot, sends and receives as textbook loops over the FIFOs and kernels that steps use. The executor of
// steps is compared with these loops. A communicator whose executor is "handwritten" runs them.
#pragma once

#include <string_view>

#include "src/executor/state.hpp"
#include "wreath/types.hpp"

namespace wreath {

class StepTrace;
struct HostProcessor;

inline constexpr std::string_view kStepsExecutor = "steps";
inline constexpr std::string_view kHandwrittenExecutor = "handwritten";

// Returns the loop of a row of the registry. Sends and receives have Collective::Exchange and no name. The loop does
// what the lowered schedule says, in its order: lanes, FIFOs and trace are the same. Returns None where there is no
// such loop.
HandwrittenLoop handwritten_loop(Collective collective, std::string_view algorithm) noexcept;

// Goes on with the lane's present tile by `operation.loop`, to its end if nothing has to be waited for. The lane keeps
// the point where it stopped: the place of the step in its schedule, the tile, and the finished part of the step.
// Returns what try_step does: Advanced, if anything moved. `trace` may be null: then no trace is kept.
Advance advance_handwritten(const OperationState& operation, LaneState& lane, HostProcessor& processor,
                            StepTrace* trace);

}  // namespace wreath
