// A batch is one sendmsg of {prefix, payload} pieces. Small messages are copied beside their headers.
#include "transports/tcp/sender.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/hash.hpp"
#include "src/base/memory_order.hpp"
#include "src/base/planted_fault.hpp"
#include "src/fifo/access.hpp"
#include "transports/tcp/stream_error.hpp"

namespace wreath {
namespace {

// Makes one system call for `count` pieces.
ssize_t send_pieces(int socket, iovec* pieces, std::size_t count) {
  constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
  if (count == 1) return ::send(socket, pieces->iov_base, pieces->iov_len, kFlags);
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = count;
  return ::sendmsg(socket, &message, kFlags);
}

}  // namespace

TcpSender::TcpSender(int socket, WireLanes& lanes)
    : socket_(socket), lanes_(lanes), scratch_(std::make_unique_for_overwrite<std::byte[]>(kScratchBytes)) {}

Result<std::size_t> TcpSender::send_some() {
  std::size_t moved = 0;
  if (unsent() > 0) {
    auto sent = send_batch();
    if (!sent || unsent() > 0 || *sent > kRefillBytes) return sent;
    moved = *sent;
  }
  WREATH_TRY(gather());
  if (unsent() == 0) return moved;
  auto sent = send_batch();
  if (!sent) return sent;
  return moved + *sent;
}

// Takes one message of each lane in turn, so that no lane waits for another's queue.
Status TcpSender::gather() {
  first_piece_ = end_piece_ = first_frame_ = end_frame_ = 0;
  scratch_used_ = batch_bytes_ = sent_bytes_ = 0;
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
  add_owed_credits(batch_bytes_ > 0);
  starved_ = std::any_of(lanes.begin(), lanes.end(), [](const WireLane* each) { return each->starved(); });
  return {};
}

// Returns whether a further message must wait for the next batch. Room for credit frames is kept.
bool TcpSender::full(std::size_t bytes) const {
  if (end_frame_ == 0) return false;
  const std::size_t room = kLongestCopied + kLongestPrefix + 63;
  return batch_bytes_ + bytes > kBatchBytes || end_frame_ == kFrames || end_piece_ + 4 > kPieces ||
         scratch_used_ + room > kScratchBytes - kCreditBytes;
}

Status TcpSender::add_message(WireLane& lane, const SlotHeader& slot) {
  if (slot.region != kLocalAddress || slot.bytes > lanes_.shape().slot_bytes) {
    return Error{ErrorCode::InvalidUsage,
                 fmt::format("tcp: slot {} of lane {} names region {}, {} bytes: not local or too long", slot.sequence,
                             lane.send.lane, slot.region, slot.bytes)};
  }
  const std::byte* data = address_of(slot);
  const bool checked = lanes_.shape().checked;
  WireHeader header;
  header.kind = checked ? FrameKind::Checked : FrameKind::Data;
  header.epoch = slot.epoch;
  header.lane = lane.send.lane;
  header.sequence = slot.sequence;
  header.signature = slot.signature;
  header.bytes = slot.bytes;
  const bool copied = slot.bytes <= kCopiedBytes;
  if (!copied) header.padding = padding_for(data);
  take_credit(header);
  const FrameExtent parts = extent(header);

  std::byte* prefix = reserve(parts.prefix + (copied ? parts.bytes : 0));
  encode(header, prefix);
  if (copied) {
    if (parts.bytes > 0) std::memcpy(prefix + parts.prefix, data, parts.bytes);
  } else {
    std::memset(prefix + kWireHeaderBytes, 0, parts.prefix - kWireHeaderBytes);
    append(data, parts.bytes);
  }
  if (checked) put_checksum(prefix, checksum({data, parts.bytes}));
  frames_[end_frame_++] = {&lane, slot.sequence, batch_bytes_};
  if (parts.tail > 0) std::memset(reserve(parts.tail), 0, parts.tail);
  lane.sent.add(slot.bytes);
  return {};
}

// Reports the lane that has most to report. Every header does this.
void TcpSender::take_credit(WireHeader& header) {
  WireLane* most = lanes_.used().front();
  std::uint32_t unreported = 0;
  for (WireLane* lane : lanes_.used()) {
    const std::uint32_t here = lane->consumed() - lane->received.begin();
    if (here > unreported) {
      most = lane;
      unreported = here;
    }
  }
  report(*most, header);
}

// Tells the peer what the executor has consumed.
void TcpSender::report(WireLane& lane, WireHeader& header) {
  lane.received.remove_before(lane.consumed());
  header.credit_lane = lane.recv.lane;
  header.credit = lane.received.begin();
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
    if (scratch_used_ + kWireAlignment > kScratchBytes) break;
    WireHeader header;
    header.kind = FrameKind::Credit;
    header.epoch = lanes_.shape().epoch;
    report(*lane, header);
    std::byte* frame = reserve(kWireAlignment);
    encode(header, frame);
    std::memset(frame + kWireHeaderBytes, 0, kWireAlignment - kWireHeaderBytes);
  }
  calls_stuck_ = stuck ? calls_stuck_ + 1 : 0;
}

// Adds `bytes` bytes of scratch memory to the batch. The caller fills them.
std::byte* TcpSender::reserve(std::size_t bytes) {
  std::byte* data = scratch_.get() + scratch_used_;
  scratch_used_ += bytes;
  append(data, bytes);
  return data;
}

void TcpSender::append(const std::byte* data, std::size_t bytes) {
  batch_bytes_ += bytes;
  if (end_piece_ > 0) {
    iovec& last = pieces_[end_piece_ - 1];
    if (static_cast<const std::byte*>(last.iov_base) + last.iov_len == data) {
      last.iov_len += bytes;
      return;
    }
  }
  pieces_[end_piece_++] = {const_cast<std::byte*>(data), bytes};
}

Result<std::size_t> TcpSender::send_batch() {
  ssize_t sent;
  do {
    sent = send_pieces(socket_, &pieces_[first_piece_], end_piece_ - first_piece_);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)) {
    blocked_ = true;
    return std::size_t{0};
  }
  if (sent < 0) return stream_error(errno);
  accepted(static_cast<std::size_t>(sent));
  blocked_ = unsent() > 0;
  return static_cast<std::size_t>(sent);
}

// Moves the batch forward, and gives back the slots whose last byte is gone.
void TcpSender::accepted(std::size_t bytes) {
  sent_bytes_ += bytes;
  while (bytes > 0) {
    iovec& piece = pieces_[first_piece_];
    const std::size_t part = bytes < piece.iov_len ? bytes : piece.iov_len;
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + part;
    piece.iov_len -= planted_fault(9) ? piece.iov_len : part;
    bytes -= part;
    if (piece.iov_len == 0) ++first_piece_;
  }
  while (first_frame_ < end_frame_ && frames_[first_frame_].end <= sent_bytes_) {
    const Frame& frame = frames_[first_frame_++];
    store_release(frame.lane->shared.send_consumed->value, frame.sequence + 1);
  }
}

}  // namespace wreath
