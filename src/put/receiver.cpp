// A message is whole when as many of its puts have told as its header says. Over an ordered channel that is one.
#include "src/put/receiver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

namespace wreath {
namespace {

Error bad_told(const char* field, std::uint64_t value, const std::string& rule, std::uint32_t lane) {
  return {ErrorCode::PeerLost, fmt::format("told word: {} is {}, {} (lane {})", field, value, rule, lane)};
}

}  // namespace

Status make_slots(PutLane& lane, const FifoShape& shape, bool large) {
  WREATH_TRY(lane.small.allocate(small_slots_bytes(shape)));
  WREATH_TRY(lane.small.make_registered(true));
  if (!large) return {};
  WREATH_TRY(lane.large.allocate(staging_bytes(shape)));
  return lane.large.make_registered(true);
}

Result<HaveSlots> PutReceiver::on_want(const WantSlots& word) {
  PutLane& lane = *lanes_[word.lane];
  if (const Status made = make_slots(lane, shape_, word.large); !made) return made.error();
  HaveSlots have{word.lane, lane.small.remote(), {}};
  if (lane.large.is_registered()) have.large = lane.large.remote();
  return have;
}

Status PutReceiver::check_told(const PutLane& lane, const Told& told) const {
  const WireWindow& window = lane.wire.received;
  if (!lane.small.is_registered()) return bad_told("lane", told.lane, "which has no slots", told.lane);
  const std::uint32_t ahead = told.since(window.end());
  const std::uint32_t room = window_messages(shape_) - window.messages();
  if (ahead >= room) {
    return bad_told("sequence", told.sequence,
                    fmt::format("must be one of {} from {} on", room, window.end() & told.sequence_mask()), told.lane);
  }
  if ((lane.parts[told.sequence & lane.mask] & 1U << told.part) != 0) {
    return bad_told("part", told.part, fmt::format("told already of message {}", told.sequence), told.lane);
  }
  return {};
}

Result<std::size_t> PutReceiver::on_told(std::size_t rail, const Told& told) {
  PutLane& lane = *lanes_[told.lane];
  WREATH_TRY(check_told(lane, told));
  lane.parts[told.sequence & lane.mask] |= static_cast<std::uint8_t>(1U << told.part);
  lane.rails[told.sequence & lane.mask] |= static_cast<std::uint8_t>(1U << rail);
  std::size_t bytes = 0;
  for (;;) {
    const auto published = publish_next(lane);
    if (!published || *published == 0) return published ? Result<std::size_t>(bytes) : published.error();
    bytes += *published;
  }
}

Result<std::size_t> PutReceiver::publish_next(PutLane& lane) {
  const WireWindow& window = lane.wire.received;
  const std::uint32_t sequence = window.end();
  std::uint8_t& parts = lane.parts[sequence & lane.mask];
  if (window.messages() > lane.mask || (parts & 1U) == 0) return std::size_t{0};
  std::array<std::byte, kPutHeaderBytes> copy;
  std::copy_n(lane.small.data() + (sequence & lane.mask) * kSmallSlotBytes, kPutHeaderBytes, copy.begin());
  const auto header = decode(copy, shape_, lane.wire.recv.lane, sequence);
  if (!header) return header.error();
  if (std::bit_width(parts) > header->parts) {
    return bad_told("part", static_cast<std::uint64_t>(std::bit_width(parts)) - 1,
                    fmt::format("must be below {}", header->parts), header->lane);
  }
  if (std::popcount(parts) < header->parts) return std::size_t{0};
  const auto data = data_of(lane, *header);
  if (!data) return data.error();
  if (shape_.checked && checksum_of(*header, {*data, header->bytes}) != header->checksum) {
    return Error{ErrorCode::PeerLost,
                 fmt::format("message {} of lane {}, {} bytes, was altered on its way: its checksum is wrong", sequence,
                             header->lane, header->bytes)};
  }
  // A message stays unpublished where its device would not see it.
  std::uint8_t& rails = lane.rails[sequence & lane.mask];
  if (header->landed != 0) WREATH_TRY(port_.flush(*data, rails));
  parts = rails = 0;
  SlotHeader message{};
  message.sequence = sequence;
  message.epoch = header->epoch;
  message.lane = header->lane;
  message.signature = header->signature;
  message.bytes = header->bytes;
  lane.wire.publish_received(message, *data);
  port_.counts().landed += header->landed;
  port_.counts().landed_bytes += header->landed == 0 ? 0 : header->bytes;
  return kPutHeaderBytes + header->bytes;
}

// Returns where the data of the lane's next message is.
Result<const std::byte*> PutReceiver::data_of(const PutLane& lane, const PutHeader& header) const {
  const WireWindow& window = lane.wire.received;
  const bool large = header.bytes > kCopiedBytes;
  if (!window.has_room(header.bytes) || (large && !lane.large.is_registered())) {
    return bad_told("sequence", header.sequence, fmt::format("but there is no slot for {} bytes", header.bytes),
                    header.lane);
  }
  if (header.landed == 0) {
    return large ? lane.large.data() + std::size_t{window.large_place()} * shape_.slot_bytes
                 : lane.small.data() + (header.sequence & lane.mask) * kSmallSlotBytes + kPutHeaderBytes;
  }
  const std::byte* const place = landings_.place_of(lane, header.sequence, header.bytes);
  if (place != nullptr) return place;
  return bad_told("sequence", header.sequence,
                  fmt::format("and its {} bytes landed where no place was named", header.bytes), header.lane);
}

bool PutReceiver::has(std::span<const LanePosition> ended) const {
  return std::ranges::all_of(ended, [this](const LanePosition& at) {
    return static_cast<std::int32_t>(lanes_[at.lane]->wire.received.end() - at.expected) >= 0;
  });
}

std::vector<LanePosition> PutReceiver::begin_again() {
  std::vector<LanePosition> positions;
  for (const auto& lane : lanes_) {
    if (!lane->small.is_registered()) continue;
    WireLane& wire = lane->wire;
    std::ranges::fill(lane->parts, std::uint8_t{0});
    std::ranges::fill(lane->rails, std::uint8_t{0});
    wire.received.remove_before(wire.consumed());
    positions.push_back({wire.recv.lane, wire.received.begin(), wire.received.end()});
  }
  return positions;
}

}  // namespace wreath
