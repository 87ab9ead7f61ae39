// Spreads messages over rails: see rail_sender.hpp.
#include "transports/tcp/rail_sender.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/memory_order.hpp"
#include "src/fifo/access.hpp"
#include "transports/tcp/headers.hpp"

namespace wreath {

RailSender::RailSender(WireLanes& lanes, RailInbox& inbox, std::size_t rails, TcpCounts& counts)
    : lanes_(lanes),
      inbox_(inbox),
      counts_(counts),
      mask_(window_messages(lanes.shape()) - 1),
      out_(lanes.shape().lanes),
      batches_(rails) {
  for (Lane& lane : out_) lane.arrived = lanes.shape().first_sequence;
}

bool RailSender::full(const FrameBatch& batch) const {
  return batch.bytes() >= (keeps_ ? kBatchBytes : kWholeBatchBytes) || !batch.has_room();
}

// Takes one part of each lane in turn, so that no lane waits for another's queue.
Status RailSender::gather(std::uint8_t rail, FrameBatch& batch) {
  batch.clear();
  while (!again_.empty() && !full(batch)) {
    const Piece piece = again_.front();
    again_.pop_front();
    if (!precedes(piece.sequence, out_[piece.lane].arrived)) add(rail, batch, piece);
  }
  const auto lanes = lanes_.used();
  // The number of lanes without a part that were seen in a row.
  std::size_t without = 0;
  std::size_t lane = turn_;
  while (without < lanes.size() && !full(batch)) {
    const auto added = add_next(rail, batch, *lanes[lane]);
    if (!added) return added.error();
    without = *added ? 0 : without + 1;
    lane = lane + 1 == lanes.size() ? 0 : lane + 1;
  }
  turn_ = lane;
  add_reports(batch);
  return {};
}

Result<bool> RailSender::add_next(std::uint8_t rail, FrameBatch& batch, WireLane& lane) {
  const std::uint16_t number = lane.send.lane;
  Lane& out = out_[number];
  if (!out.cutting) {
    const SlotHeader* slot = lane.sendable();
    if (slot == nullptr) return false;
    WREATH_TRY(begin(lane, *slot));
  }
  const std::uint32_t sequence = lane.sent.end() - 1;
  const std::uint32_t part = out.next_part++;
  out.cutting = out.next_part < parts(message(number, sequence));
  add(rail, batch, {number, sequence, part});
  if (!out.cutting) release(number);
  return true;
}

// Begins the next message of a lane.
Status RailSender::begin(WireLane& lane, const SlotHeader& slot) {
  const std::uint16_t number = lane.send.lane;
  Lane& out = out_[number];
  const auto header = header_of(slot, number, lanes_.shape());
  if (!header) return header.error();
  if (out.messages.empty()) out.messages.resize(window_messages(lanes_.shape()));
  Message& next = message(number, slot.sequence);
  next.data = address_of(slot);
  next.bytes = slot.bytes;
  next.signature = slot.signature;
  next.kept = keeps_;
  next.in_batches = 0;
  if (slot.bytes > kCopiedBytes) {
    large_begun_ += slot.bytes;
    out.large_end = slot.sequence + 1;
  } else if (keeps_) {
    WREATH_TRY(out.copies.allocate(window_messages(lanes_.shape()) * kCopiedBytes));
    std::byte* const copy = out.copies.data() + (slot.sequence & mask_) * kCopiedBytes;
    if (slot.bytes > 0) std::memcpy(copy, next.data, slot.bytes);
    next.data = copy;
  }
  lane.sent.add(slot.bytes);
  ++counts_.messages;
  counts_.bytes += slot.bytes;
  out.cutting = true;
  out.next_part = 0;
  return {};
}

void RailSender::add(std::uint8_t rail, FrameBatch& batch, const Piece& piece) {
  Message& own = message(piece.lane, piece.sequence);
  const bool checked = lanes_.shape().checked;
  WireHeader header;
  header.epoch = lanes_.shape().epoch;
  header.lane = piece.lane;
  header.sequence = piece.sequence;
  header.signature = own.signature;
  header.bytes = own.bytes;
  own.rails[piece.part] = rail;
  const bool large = own.bytes > kCopiedBytes;
  if (large && own.kept) {
    header.kind = checked ? FrameKind::CheckedPart : FrameKind::Part;
    header.credit = piece.part;
  } else {
    header.kind = checked ? FrameKind::Checked : FrameKind::Data;
    take_credit(lanes_, header);
  }
  const PartRange part = range(header, lanes_.shape());
  if (large) header.padding = padding_for(own.data + part.offset);
  const std::size_t end = batch.add(header, own.data + part.offset, part.bytes);
  if (!large) return;
  ++own.in_batches;
  batches_[rail].push_back({piece, end});
}

// Tells the peer at once of large messages that have arrived, since its call waits for that. Credit is told when half
// of it is owed. A lane that is full and less than half read is reported after a few batches. So in the end the peer
// always has all its credit.
void RailSender::add_reports(FrameBatch& batch) {
  while (inbox_.owes() && batch.has_credit_room()) add_report(batch, lanes_[inbox_.take_owed()]);
  bool stuck = false;
  for (WireLane* lane : lanes_.used()) {
    if (lane->consumed() == lane->received.begin()) continue;
    const bool waits = lane->received.full();
    stuck = stuck || waits;
    const bool late = waits && (calls_stuck_ >= kPatience || batch.bytes() > 0);
    if ((lane->received.is_half(lane->consumed()) || late) && batch.has_credit_room()) add_report(batch, *lane);
  }
  calls_stuck_ = stuck ? calls_stuck_ + 1 : 0;
}

void RailSender::add_report(FrameBatch& batch, WireLane& lane) {
  WireHeader header;
  header.kind = FrameKind::Arrival;
  header.epoch = lanes_.shape().epoch;
  header.sequence = lane.received.end();
  report(lane, header);
  batch.add_credit(header);
}

void RailSender::on_sent(std::uint8_t rail, std::size_t bytes) {
  std::deque<Held>& held = batches_[rail];
  for (; !held.empty() && held.front().end <= bytes; held.pop_front()) {
    const Piece& piece = held.front().piece;
    --message(piece.lane, piece.sequence).in_batches;
    release(piece.lane);
  }
}

bool RailSender::on_lost(std::uint8_t rail) {
  on_sent(rail, SIZE_MAX);
  bool all_kept = true;
  for (std::uint16_t lane = 0; lane < out_.size(); ++lane) {
    const std::uint32_t end = lanes_[lane].sent.end();
    for (std::uint32_t sequence = out_[lane].arrived; sequence != end; ++sequence) {
      const Message& own = message(lane, sequence);
      const std::uint32_t taken = sequence == whole_end(lane) ? out_[lane].next_part : parts(own);
      for (std::uint32_t part = 0; part < taken; ++part) {
        if (own.rails[part] != rail) continue;
        if (own.kept) again_.push_back({lane, sequence, part});
        all_kept = all_kept && own.kept;
      }
    }
  }
  return all_kept;
}

// A report may be late, since rails have their own order. One that says less than an earlier one is no news.
Status RailSender::check(const WireHeader& header) const {
  if (is_part(header.kind)) return {};
  const std::uint32_t end = whole_end(header.credit_lane);
  if (precedes(end, header.credit)) {
    return bad_field("credit", header, header.credit, fmt::format("must be {} at most", end));
  }
  if (header.kind == FrameKind::Arrival && precedes(end, header.sequence)) {
    return bad_field("sequence", header, header.sequence, fmt::format("must be {} at most", end));
  }
  return {};
}

void RailSender::take_report(const WireHeader& header) {
  if (is_part(header.kind)) return;
  WireWindow& window = lanes_[header.credit_lane].sent;
  if (precedes(window.begin(), header.credit)) window.remove_before(header.credit);
  Lane& lane = out_[header.credit_lane];
  const bool arrival = header.kind == FrameKind::Arrival && precedes(header.credit, header.sequence);
  const std::uint32_t end = arrival ? header.sequence : header.credit;
  for (; precedes(lane.arrived, end); ++lane.arrived) {
    const std::uint32_t bytes = message(header.credit_lane, lane.arrived).bytes;
    if (bytes > kCopiedBytes) large_arrived_ += bytes;
  }
  if (lane.large_end && !precedes(lane.arrived, *lane.large_end)) lane.large_end.reset();
  release(header.credit_lane);
}

// Gives back the slots of messages that need not be sent again from there.
void RailSender::release(std::uint16_t number) {
  const Lane& lane = out_[number];
  std::uint32_t& consumed = lanes_[number].shared.send_consumed->value;
  std::uint32_t at = consumed;
  for (const std::uint32_t end = whole_end(number); at != end; ++at) {
    const Message& own = lane.messages[at & mask_];
    if (own.bytes > kCopiedBytes && (own.in_batches > 0 || (own.kept && !precedes(at, lane.arrived)))) break;
  }
  if (at != consumed) store_release(consumed, at);
}

bool RailSender::waits() const {
  return std::ranges::any_of(lanes_.used(),
                             [](const WireLane* lane) { return lane->shared.send_consumed->value != lane->send.next; });
}

std::uint32_t RailSender::parts(const Message& message) const {
  return message.bytes <= kCopiedBytes || !message.kept ? 1 : parts_of(message.bytes, lanes_.shape());
}

bool RailSender::large_under_way() const {
  return std::ranges::any_of(lanes_.used(),
                             [&](const WireLane* lane) { return out_[lane->send.lane].large_end.has_value(); });
}

}  // namespace wreath
