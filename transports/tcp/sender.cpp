// Takes messages of all lanes in turn, and gives back the slots whose last byte is gone.
#include "transports/tcp/sender.hpp"

#include <algorithm>

#include "src/base/memory_order.hpp"
#include "src/fifo/access.hpp"
#include "transports/tcp/headers.hpp"

namespace wreath {

TcpSender::TcpSender(int socket, WireLanes& lanes, TcpCounts& counts)
    : lanes_(lanes), counts_(counts), batch_(socket, counts) {}

Result<std::size_t> TcpSender::send_some() {
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
Status TcpSender::gather() {
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
bool TcpSender::full(std::size_t bytes) const {
  if (end_frame_ == 0) return false;
  return batch_.bytes() + bytes > kBatchBytes || end_frame_ == kFrames || !batch_.has_room();
}

Status TcpSender::add_message(WireLane& lane, const SlotHeader& slot) {
  auto header = header_of(slot, lane.send.lane, lanes_.shape());
  if (!header) return header.error();
  const std::byte* data = address_of(slot);
  if (slot.bytes > kCopiedBytes) header->padding = padding_for(data);
  take_credit(lanes_, *header);
  frames_[end_frame_++] = {&lane, slot.sequence, batch_.add(*header, data, slot.bytes)};
  lane.sent.add(slot.bytes);
  ++counts_.messages;
  counts_.bytes += slot.bytes;
  return {};
}

// Adds frames of their own for lanes of which half is unreported. They cost a system call unless the batch holds
// `anything_else`. A lane that is full and less than half read is reported after a few calls. So in the end the peer
// always has all its credit.
void TcpSender::add_owed_credits(bool anything_else) {
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

Result<std::size_t> TcpSender::send_batch() {
  auto sent = batch_.send();
  if (!sent) return sent;
  while (first_frame_ < end_frame_ && frames_[first_frame_].end <= batch_.sent()) {
    const Frame& frame = frames_[first_frame_++];
    store_release(frame.lane->shared.send_consumed->value, frame.sequence + 1);
  }
  return sent;
}

}  // namespace wreath
