// Fills frame headers from slots and lanes, for all senders.
#pragma once

#include <cstdint>
#include <string>

#include "src/fifo/wire/lanes.hpp"
#include "transports/tcp/wire.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Returns the header of a message in a slot of `lane`, without a credit. Returns InvalidUsage for a slot that no pump
// could send.
Result<WireHeader> header_of(const SlotHeader& slot, std::uint16_t lane, const FifoShape& shape);

// Returns the message of a frame as slots describe it.
SlotHeader message_of(const WireHeader& header);

// Tells the peer what the executor has consumed of `lane`.
void report(WireLane& lane, WireHeader& header);
// Reports the lane that has most to report. Every header of a whole message does this.
void take_credit(WireLanes& lanes, WireHeader& header);

// Returns the error for a field of a header that no correct peer sends.
Error bad_field(const char* field, const WireHeader& header, std::uint32_t value, const std::string& rule);

// Returns whether sequence `a` comes before `b`, where both are in one window.
constexpr bool precedes(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

}  // namespace wreath
