// Puts messages together: see rail_inbox.hpp.
#include "transports/tcp/rail_inbox.hpp"

#include <fmt/format.h>

#include <utility>

#include "transports/tcp/headers.hpp"

namespace wreath {
namespace {

// Returns whether a frame has the whole of a large message.
bool is_whole(const WireHeader& header) { return header.bytes > kCopiedBytes && !is_part(header.kind); }

// Returns the bit of a frame's payload among the parts of its message.
std::uint32_t part_bit(const WireHeader& header) { return 1U << (is_part(header.kind) ? header.credit : 0); }

// Returns the bits of all parts. A message that comes as one frame has one part.
std::uint32_t all_parts(std::uint32_t bytes, bool whole, const FifoShape& shape) {
  return whole || bytes <= kCopiedBytes ? 1U : ~0U >> (kMostMessageParts - parts_of(bytes, shape));
}

Error no_room(const WireHeader& header, const WireWindow& window) {
  return bad_field(
      "sequence", header, header.sequence,
      fmt::format("but there is no room for {} bytes beside the messages since {}", header.bytes, window.begin()));
}

}  // namespace

RailInbox::RailInbox(WireLanes& lanes)
    : lanes_(lanes), mask_(window_messages(lanes.shape()) - 1), places_(lanes.shape().lanes) {
  for (std::uint16_t i = 0; i < lanes.shape().lanes; ++i) {
    lanes[i].recv.landing = &places_[i].landing;
  }
}

Status RailInbox::check(const WireHeader& header) const {
  const WireWindow& window = lanes_[header.lane].received;
  if (precedes(header.sequence, window.end())) return {};  // it comes again
  if (header.sequence - window.begin() > mask_) return no_room(header, window);
  const std::vector<Message>& messages = places_[header.lane].messages;
  if (messages.empty() || !messages[header.sequence & mask_].under_way) return {};
  const Message& known = messages[header.sequence & mask_];
  // Its place is given to one frame, so no other one may come beside it.
  if (known.whole || is_whole(header)) {
    return bad_field("sequence", header, header.sequence, "but this message comes already, and not in parts");
  }
  if (known.bytes != header.bytes) {
    return bad_field("bytes", header, header.bytes, fmt::format("in another part it was {}", known.bytes));
  }
  if (known.signature != header.signature) {
    return bad_field("signature", header, header.signature, fmt::format("in another part it was {}", known.signature));
  }
  return {};
}

Result<std::byte*> RailInbox::place(const WireHeader& header) {
  if (precedes(header.sequence, lanes_[header.lane].received.end())) {
    // The peer has not heard of its arrival.
    owe(header.lane);
    return nullptr;
  }
  Lane& lane = places_[header.lane];
  if (lane.messages.empty()) {
    lane.owners.resize(lanes_.shape().slot_count);
    lane.messages.resize(window_messages(lanes_.shape()));
  }
  Message& known = message(header.lane, header.sequence);
  if (!known.under_way) {
    auto target = new_place(header);
    if (!target) return target;
    known = {true, is_whole(header), header.bytes, header.signature, 0, *target};
  }
  if ((known.here & part_bit(header)) != 0) return nullptr;
  return known.target + range(header, lanes_.shape()).offset;
}

// Returns the target of the step that waits for this very message, or else a place in staging memory.
Result<std::byte*> RailInbox::new_place(const WireHeader& header) {
  Lane& lane = places_[header.lane];
  const FifoShape& shape = lanes_.shape();
  Landing& landing = lane.landing;
  if (landing.target != nullptr && landing.sequence == header.sequence && landing.bytes == header.bytes) {
    return std::exchange(landing.target, nullptr);
  }
  if (header.bytes <= kCopiedBytes) {
    WREATH_TRY(lane.small.allocate(window_messages(shape) * kCopiedBytes));
    return lane.small.data() + (header.sequence & mask_) * kCopiedBytes;
  }
  WREATH_TRY(lane.large.allocate(staging_bytes(shape)));
  const std::uint32_t consumed = lanes_[header.lane].consumed();
  for (std::size_t i = 0; i < lane.owners.size(); ++i) {
    // An owner within the window has not been read. Any other one has, maybe so long ago that its number comes again.
    if (lane.owners[i] && *lane.owners[i] - consumed <= mask_) continue;
    lane.owners[i] = header.sequence;
    return lane.large.data() + i * shape.slot_bytes;
  }
  return no_room(header, lanes_[header.lane].received);
}

void RailInbox::add(const WireHeader& header) {
  message(header.lane, header.sequence).here |= part_bit(header);
  WireLane& lane = lanes_[header.lane];
  for (;;) {
    Message& next = message(header.lane, lane.received.end());
    if (!next.under_way || next.here != all_parts(next.bytes, next.whole, lanes_.shape())) return;
    next.under_way = false;
    SlotHeader slot{};
    slot.sequence = lane.received.end();
    slot.epoch = lanes_.shape().epoch;
    slot.lane = header.lane;
    slot.signature = next.signature;
    slot.bytes = next.bytes;
    lane.publish_received(slot, next.target);
    // The sender of a whole message has given its memory back.
    if (next.bytes > kCopiedBytes && !next.whole) owe(header.lane);
  }
}

std::uint16_t RailInbox::take_owed() {
  const std::uint16_t lane = owed_.back();
  owed_.pop_back();
  places_[lane].owed = false;
  return lane;
}

void RailInbox::owe_all() {
  for (std::uint16_t lane = 0; lane < places_.size(); ++lane) {
    if (lanes_[lane].received.end() != lanes_.shape().first_sequence) owe(lane);
  }
}

void RailInbox::owe(std::uint16_t lane) {
  if (std::exchange(places_[lane].owed, true)) return;
  owed_.push_back(lane);
}

}  // namespace wreath
