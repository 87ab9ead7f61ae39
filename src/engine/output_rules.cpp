// Implements the rules.
#include "src/engine/output_rules.hpp"

namespace wreath {

bool reads_output(const Call& call) { return call.collective == Collective::AllReduce && call.input == call.output; }

// Data that comes over a wire stays in the caches: the kernel put it there, and a rank that passes it on would read it
// from memory again.
Streamed streamed_of(const OutputUse& output, const StreamedBytes& least, const TunerContext& tuning) {
  if (output.bytes < (output.was_read ? least.read_output : least.output)) return Streamed::Nothing;
  return tuning.all_mapped() ? Streamed::All : Streamed::Own;
}

// Results that peers read where they lie are read faster once they have left the near cache of the core that summed
// them. The lanes that sum have lower numbers than those that copy results. Past the caches results leave at once.
// Measured for two ranks with a core each, on the processors that fill ping-pong slots.
LaneOrder order_of(Collective collective, const OperationState& state, const TunerContext& tuning) {
  const bool read_in_place = state.region[static_cast<std::size_t>(Buffer::Output)] != 0;
  const bool sums_first = collective == Collective::AllReduce && read_in_place && state.streamed == Streamed::Nothing;
  return sums_first && tuning.ping_pong ? LaneOrder::Lowest : LaneOrder::Turns;
}

}  // namespace wreath
