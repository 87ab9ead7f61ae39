// A call makes one send and one receive in turn. The link takes messages of all lanes in turn, and gives back the slots
// whose last byte is gone. Errors are in words.
#include "transports/tcp/link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/memory_order.hpp"
#include "src/base/planted_fault.hpp"
#include "src/fifo/access.hpp"
#include "transports/tcp/headers.hpp"

namespace wreath {

TcpLink::TcpLink(Rank peer, Fd socket, const FifoShape& shape, std::string interface, std::shared_ptr<TcpCounts> counts)
    : FrameReader(socket.get(), shape, Framing::Whole, *counts),
      peer_(peer),
      socket_(std::move(socket)),
      interface_(std::move(interface)),
      counts_(std::move(counts)),
      lanes_(shape),
      batch_(socket_.get(), *counts_),
      places_(shape.lanes) {
  for (std::uint16_t i = 0; i < shape.lanes; ++i) lanes_[i].recv.landing = &places_[i].landing;
}

// The peer may still be reading bytes that the kernel accepted, and they must reach it.
TcpLink::~TcpLink() {
  if (!broken_ && !send_error_) finish_sending(socket_.get());
}

Result<std::size_t> TcpLink::progress(bool expecting) {
  if (broken_) return *broken_;
  std::size_t moved = 0;
  if (!send_error_) {
    auto sent = send_some();
    if (!sent && sent.error().code != ErrorCode::PeerLost) return fail(explain(sent.error()));
    if (sent) {
      moved = *sent;
    } else {
      send_error_ = explain(sent.error());
    }
  }
  const bool looks = expecting || armed_ || send_error_ || starved_;
  if (!looks && ++idle_calls_ < kIdleCalls) return moved;
  idle_calls_ = 0;
  armed_ = false;
  auto received = receive_some();
  if (!received) return fail(explain(received.error()));
  if (send_error_ && *received == 0) return fail(*send_error_);
  return moved + *received;
}

// Names the peer once, here. An error that is not the peer's doing keeps its code.
Error TcpLink::explain(const Error& error) const {
  return {error.code, fmt::format("tcp link to rank {}: {}", peer_, error.message),
          error.code == ErrorCode::PeerLost ? peer_ : -1};
}

Result<std::size_t> TcpLink::fail(Error error) {
  broken_ = std::move(error);
  return *broken_;
}

// ---- the sending half ----

// Hands to the kernel what it takes now, and returns the bytes moved. Returns PeerLost with the reason when the
// connection is gone, and InvalidUsage for a slot that no pump could send.
Result<std::size_t> TcpLink::send_some() {
  std::size_t moved = 0;
  if (batch_.unsent() > 0) {
    auto sent = send_batch();
    if (!sent || batch_.unsent() > 0 || *sent > kRefillBytes) return sent;
    moved = *sent;
  }
  WREATH_TRY(gather());
  if (batch_.unsent() == 0) return moved;
  auto sent = send_batch();
  if (!sent) return sent;
  return moved + *sent;
}

// Takes one message of each lane in turn, so that no lane waits for another's queue.
Status TcpLink::gather() {
  batch_.clear();
  first_frame_ = end_frame_ = 0;
  const auto lanes = lanes_.used();
  // The number of lanes without a message that were seen in a row.
  std::size_t without = 0;
  std::size_t lane = turn_;
  while (without < lanes.size()) {
    const SlotHeader* slot = lanes[lane]->sendable();
    if (slot != nullptr) {
      if (full(slot->bytes)) break;
      WREATH_TRY(add_message(*lanes[lane], *slot));
    }
    without = slot == nullptr ? without + 1 : 0;
    lane = lane + 1 == lanes.size() ? 0 : lane + 1;
  }
  turn_ = lane;
  add_owed_credits(batch_.bytes() > 0);
  starved_ = std::any_of(lanes.begin(), lanes.end(), [](const WireLane* each) { return each->starved(); });
  return {};
}

// Returns whether a further message must wait for the next batch. Room for credit frames is kept.
bool TcpLink::full(std::size_t bytes) const {
  if (end_frame_ == 0) return false;
  return batch_.bytes() + bytes > kBatchBytes || end_frame_ == kFrames || !batch_.has_room();
}

Status TcpLink::add_message(WireLane& lane, const SlotHeader& slot) {
  auto header = header_of(slot, lane.send.lane, lanes_.shape());
  if (!header) return header.error();
  const std::byte* data = address_of(slot);
  if (slot.bytes > kCopiedBytes) header->padding = padding_for(data);
  take_credit(lanes_, *header);
  frames_[end_frame_++] = {&lane, slot.sequence, batch_.add(*header, data, slot.bytes)};
  lane.sent.add(slot.bytes);
  ++counts_->messages;
  counts_->bytes += slot.bytes;
  return {};
}

// Adds frames of their own for lanes of which half is unreported. They cost a system call unless the batch holds
// `anything_else`. A lane that is full and less than half read is reported after a few calls. So in the end the peer
// always has all its credit.
void TcpLink::add_owed_credits(bool anything_else) {
  bool stuck = false;
  for (WireLane* lane : lanes_.used()) {
    if (lane->consumed() == lane->received.begin()) continue;
    const bool waits = lane->received.full();
    stuck = stuck || waits;
    if (!lane->received.is_half(lane->consumed()) && !(waits && (calls_stuck_ >= kPatience || anything_else))) continue;
    if (!batch_.has_credit_room()) break;
    WireHeader header;
    header.kind = FrameKind::Credit;
    header.epoch = lanes_.shape().epoch;
    report(*lane, header);
    batch_.add_credit(header);
  }
  calls_stuck_ = stuck ? calls_stuck_ + 1 : 0;
}

Result<std::size_t> TcpLink::send_batch() {
  auto sent = batch_.send();
  if (!sent) return sent;
  while (first_frame_ < end_frame_ && frames_[first_frame_].end <= batch_.sent()) {
    const Frame& frame = frames_[first_frame_++];
    store_release(frame.lane->shared.send_consumed->value, frame.sequence + 1);
  }
  return sent;
}

// ---- the receiving half ----

Status TcpLink::check(const WireHeader& header) const {
  if (has_message(header.kind)) WREATH_TRY(check_order(header));
  return check_credit(header);
}

void TcpLink::take_report(const WireHeader& header) {
  if (!(planted_fault(10) && has_message(header.kind))) lanes_[header.credit_lane].sent.remove_before(header.credit);
}

Status TcpLink::check_order(const WireHeader& header) const {
  const WireWindow& window = lanes_[header.lane].received;
  if (header.sequence != window.end()) {
    return bad_field("sequence", header, header.sequence, fmt::format("expected {}", window.end()));
  }
  if (!window.has_room(header.bytes)) {
    return bad_field("sequence", header, header.sequence,
                     fmt::format("but there is no room for {} bytes beside the {} messages since {}", header.bytes,
                                 window.messages(), window.begin()));
  }
  return {};
}

Status TcpLink::check_credit(const WireHeader& header) const {
  const WireWindow& window = lanes_[header.credit_lane].sent;
  if (header.credit - window.begin() > window.messages() || (planted_fault(12) && header.credit < window.begin())) {
    return bad_field("credit", header, header.credit,
                     fmt::format("must be between {} and {}", window.begin(), window.end()));
  }
  return {};
}

// Returns the target of the step that waits for this very message, or else the message's place in staging memory.
Result<std::byte*> TcpLink::destination(const WireHeader& header) {
  Places& places = places_[header.lane];
  Landing& landing = places.landing;
  if (landing.target != nullptr && (landing.sequence == header.sequence || planted_fault(11)) &&
      landing.bytes == header.bytes) {
    return std::exchange(landing.target, nullptr);
  }
  const FifoShape& shape = lanes_.shape();
  if (header.bytes > kCopiedBytes) {
    WREATH_TRY(places.large.allocate(staging_bytes(shape)));
    return places.large.data() + std::size_t{lanes_[header.lane].received.large_place()} * shape.slot_bytes;
  }
  WREATH_TRY(places.small.allocate(window_messages(shape) * kCopiedBytes));
  return places.small.data() + (header.sequence & (window_messages(shape) - 1)) * kCopiedBytes;
}

void TcpLink::take_payload(const WireHeader& header, const std::byte* data) {
  lanes_[header.lane].publish_received(message_of(header), data);
}

}  // namespace wreath
