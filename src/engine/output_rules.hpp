// Decides how an operation writes its output: which data goes past the caches (docs/decisions/0012), and whether sums
// come before copies of the peers' sums (docs/decisions/0042).
#pragma once

#include <cstdint>

#include "src/executor/state.hpp"
#include "src/tuner/streaming.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/call.hpp"

namespace wreath {

// Returns whether the call reads all of its output before it writes there.
bool reads_output(const Call& call);

// The output of one operation on one rank.
struct OutputUse {
  std::uint64_t bytes = 0;
  bool was_read = false;  // reads_output()
};

// Returns which data for the output goes past the caches. `least` are the sizes of this machine.
Streamed streamed_of(const OutputUse& output, const StreamedBytes& least, const TunerContext& tuning);

// Returns the order of the lanes of a call with such a state. `tuning` is the communicator's.
LaneOrder order_of(Collective collective, const OperationState& state, const TunerContext& tuning);

}  // namespace wreath
