// Fills frame headers: see headers.hpp.
#include "transports/tcp/headers.hpp"

#include <fmt/format.h>

namespace wreath {

Result<WireHeader> header_of(const SlotHeader& slot, std::uint16_t lane, const FifoShape& shape) {
  if (slot.region != kLocalAddress || slot.bytes > shape.slot_bytes) {
    return Error{ErrorCode::InvalidUsage,
                 fmt::format("tcp: slot {} of lane {} names region {}, {} bytes: not local or too long", slot.sequence,
                             lane, slot.region, slot.bytes)};
  }
  WireHeader header;
  header.kind = shape.checked ? FrameKind::Checked : FrameKind::Data;
  header.epoch = slot.epoch;
  header.lane = lane;
  header.sequence = slot.sequence;
  header.signature = slot.signature;
  header.bytes = slot.bytes;
  return header;
}

SlotHeader message_of(const WireHeader& header) {
  SlotHeader message{};
  message.sequence = header.sequence;
  message.epoch = header.epoch;
  message.lane = header.lane;
  message.signature = header.signature;
  message.bytes = header.bytes;
  return message;
}

void report(WireLane& lane, WireHeader& header) {
  lane.received.remove_before(lane.consumed());
  header.credit_lane = lane.recv.lane;
  header.credit = lane.received.begin();
}

void take_credit(WireLanes& lanes, WireHeader& header) {
  WireLane* most = lanes.used().front();
  std::uint32_t unreported = 0;
  for (WireLane* lane : lanes.used()) {
    const std::uint32_t here = lane->consumed() - lane->received.begin();
    if (here > unreported) {
      most = lane;
      unreported = here;
    }
  }
  report(*most, header);
}

Error bad_field(const char* field, const WireHeader& header, std::uint32_t value, const std::string& rule) {
  return {ErrorCode::PeerLost, fmt::format("frame header: {} is {}, {} (lane {})", field, value, rule, header.lane)};
}

}  // namespace wreath
