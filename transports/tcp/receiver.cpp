// Reads and checks frames. Nothing from the wire is used before decode() and check_order() have seen it.
#include "transports/tcp/receiver.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/hash.hpp"
#include "src/base/planted_fault.hpp"
#include "transports/tcp/stream_error.hpp"

namespace wreath {
namespace {

// Calls recv into one or two pieces. Returns the bytes, 0 at the end of the stream, or -1 with errno.
ssize_t receive_pieces(int socket, iovec* pieces, std::size_t count) {
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = count;
  ssize_t got;
  do {
    got = count == 1 ? ::recv(socket, pieces->iov_base, pieces->iov_len, MSG_DONTWAIT)
                     : ::recvmsg(socket, &message, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  return got;
}

Error bad_field(const char* field, const WireHeader& header, std::uint32_t value, const std::string& rule) {
  return {ErrorCode::PeerLost, fmt::format("frame header: {} is {}, {} (lane {})", field, value, rule, header.lane)};
}

}  // namespace

TcpReceiver::TcpReceiver(int socket, WireLanes& lanes)
    : socket_(socket),
      lanes_(lanes),
      places_(lanes.shape().lanes),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {
  for (std::uint16_t i = 0; i < lanes.shape().lanes; ++i) lanes[i].recv.landing = &places_[i].landing;
}

// Begins a large message only in a call that has published nothing yet. The step that waits for it may have to post its
// Landing first.
Result<std::size_t> TcpReceiver::receive_some() {
  published_ = false;
  const std::size_t waiting = buffered();
  WREATH_TRY(parse());
  if (published_) return waiting - buffered();
  const std::size_t asked = remaining_ > 0 ? 0 : wanted();
  auto first = read();
  if (!first || *first == 0) return first;
  WREATH_TRY(parse());
  if (remaining_ == 0 || *first != asked) return first;
  // The call asked for a header only. The payload is probably here, too.
  auto rest = read();
  if (!rest) return rest;
  WREATH_TRY(parse());
  return *first + *rest;
}

// Returns how much to ask for while no payload is under way. It asks for much, unless the bytes would have to be copied
// again.
std::size_t TcpReceiver::wanted() const {
  return large_ && buffered() < kPrefixRead ? kPrefixRead - buffered() : kFirstRead;
}

Result<std::size_t> TcpReceiver::read() {
  iovec pieces[2];
  std::size_t count = 1;
  const bool direct = remaining_ > 0 && target_ != nullptr;
  if (direct) {
    begin_ = end_ = 0;
    pieces[0] = {target_ + done_, remaining_};
    pieces[1] = {buffer_.get(), kPrefixRead};
    count = 2;
  } else {
    if (begin_ > 0) std::memmove(buffer_.get(), buffer_.get() + begin_, buffered());
    end_ = buffered();
    begin_ = 0;
    pieces[0] = {buffer_.get() + end_, remaining_ > 0 ? kFirstRead : wanted()};
  }
  const ssize_t got = receive_pieces(socket_, pieces, count);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::size_t{0};
  if (got < 0) return stream_error(errno);
  if (got == 0) return end_of_stream();
  const auto bytes = static_cast<std::size_t>(got);
  const std::size_t landed = direct ? std::min(bytes, remaining_) : 0;
  end_ += bytes - landed;
  done_ += landed;
  remaining_ -= landed;
  if (direct && remaining_ == 0) WREATH_TRY(finish_message());
  return bytes;
}

Error TcpReceiver::end_of_stream() const {
  const bool inside = remaining_ > 0 || skip_ > 0 || buffered() > 0;
  return {ErrorCode::PeerLost, inside ? "connection closed in the middle of a message" : "connection closed"};
}

Status TcpReceiver::parse() {
  for (;;) {
    if (remaining_ > 0) WREATH_TRY(take(target_, std::min(buffered(), remaining_)));
    if (remaining_ > 0) return {};
    skip_buffered();
    if (skip_ > 0) return {};
    auto parsed = parse_frame();
    if (!parsed) return parsed.error();
    if (!*parsed) return {};
  }
}

void TcpReceiver::skip_buffered() {
  const std::size_t bytes = std::min(skip_, buffered());
  begin_ += bytes;
  skip_ -= bytes;
}

Result<bool> TcpReceiver::parse_frame() {
  if (buffered() < kWireHeaderBytes) return false;
  auto decoded =
      decode(std::span<const std::byte, kWireHeaderBytes>(buffer_.get() + begin_, kWireHeaderBytes), lanes_.shape());
  if (!decoded) return decoded.error();
  const WireHeader& header = *decoded;
  const FrameExtent parts = extent(header);
  const bool ours = header.epoch == lanes_.shape().epoch;
  const bool message = header.kind != FrameKind::Credit;
  if (ours) {
    if (message) WREATH_TRY(check_order(header));
    WREATH_TRY(check_credit(header));
  }
  const bool copied = parts.bytes <= kCopiedBytes;
  if (buffered() < parts.prefix + (copied ? parts.bytes : 0)) return false;
  if (published_ && !copied && ours) return false;
  if (ours && !(planted_fault(10) && message)) lanes_[header.credit_lane].sent.remove_before(header.credit);
  if (header.kind == FrameKind::Checked) checksum_ = checksum_in(buffer_.get() + begin_);
  begin_ += parts.prefix;
  if (!message) {
    skip_ = parts.tail;
    return true;
  }
  target_ = nullptr;
  if (ours) {
    auto place = destination(header);
    if (!place) return place.error();
    target_ = *place;
  }
  header_ = header;
  done_ = 0;
  remaining_ = parts.bytes;
  large_ = !copied;
  WREATH_TRY(take(target_, std::min(buffered(), remaining_)));
  if (parts.bytes == 0) WREATH_TRY(finish_message());
  return true;
}

Status TcpReceiver::check_order(const WireHeader& header) const {
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

Status TcpReceiver::check_credit(const WireHeader& header) const {
  const WireWindow& window = lanes_[header.credit_lane].sent;
  if (header.credit - window.begin() > window.messages() || (planted_fault(12) && header.credit < window.begin())) {
    return bad_field("credit", header, header.credit,
                     fmt::format("must be between {} and {}", window.begin(), window.end()));
  }
  return {};
}

// Returns the target of the step that waits for this very message, or else the message's place in staging memory.
Result<std::byte*> TcpReceiver::destination(const WireHeader& header) {
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

// Moves buffered bytes into the message under way.
Status TcpReceiver::take(std::byte* target, std::size_t bytes) {
  if (bytes == 0) return {};
  if (target != nullptr) std::memcpy(target + done_, buffer_.get() + begin_, bytes);
  begin_ += bytes;
  done_ += bytes;
  remaining_ -= bytes;
  return remaining_ == 0 ? finish_message() : Status();
}

// Publishes the message, which is here as a whole, unless it is thrown away.
Status TcpReceiver::finish_message() {
  skip_ = extent(header_).tail;
  if (target_ == nullptr) return {};
  if (header_.kind == FrameKind::Checked && checksum({target_, header_.bytes}) != checksum_) {
    return Error{ErrorCode::PeerLost,
                 fmt::format("message {} of lane {}, {} bytes, was altered on its way: its checksum is wrong",
                             header_.sequence, header_.lane, header_.bytes)};
  }
  SlotHeader message{};
  message.sequence = header_.sequence;
  message.epoch = header_.epoch;
  message.lane = header_.lane;
  message.signature = header_.signature;
  message.bytes = header_.bytes;
  lanes_[header_.lane].publish_received(message, target_);
  published_ = true;
  return {};
}

}  // namespace wreath
