// Reads frames. Nothing from the wire is used before decode() and check() have seen it.
#include "transports/tcp/frame_reader.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/hash.hpp"
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

}  // namespace

FrameReader::FrameReader(int socket, const FifoShape& shape, Framing framing, TcpCounts& counts)
    : socket_(socket),
      shape_(shape),
      framing_(framing),
      counts_(counts),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {}

// Begins a large message only in a call that has published nothing yet. The step that waits for it may have to post its
// Landing first.
Result<std::size_t> FrameReader::receive_some() {
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
std::size_t FrameReader::wanted() const {
  return large_ && buffered() < kPrefixRead ? kPrefixRead - buffered() : kFirstRead;
}

Result<std::size_t> FrameReader::read() {
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
  ++counts_.receives;
  const ssize_t got = receive_pieces(socket_, pieces, count);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::size_t{0};
  stream_ended_ = got <= 0;
  if (got < 0) return stream_error(errno);
  if (got == 0) return end_of_stream();
  const auto bytes = static_cast<std::size_t>(got);
  const std::size_t landed = direct ? std::min(bytes, remaining_) : 0;
  end_ += bytes - landed;
  done_ += landed;
  remaining_ -= landed;
  if (direct && remaining_ == 0) WREATH_TRY(finish_payload());
  return bytes;
}

Error FrameReader::end_of_stream() const {
  const bool inside = remaining_ > 0 || skip_ > 0 || buffered() > 0;
  return {ErrorCode::PeerLost, inside ? "connection closed in the middle of a message" : "connection closed"};
}

Status FrameReader::parse() {
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

void FrameReader::skip_buffered() {
  const std::size_t bytes = std::min(skip_, buffered());
  begin_ += bytes;
  skip_ -= bytes;
}

Result<bool> FrameReader::parse_frame() {
  if (buffered() < kWireHeaderBytes) return false;
  auto decoded =
      decode(std::span<const std::byte, kWireHeaderBytes>(buffer_.get() + begin_, kWireHeaderBytes), shape_, framing_);
  if (!decoded) return decoded.error();
  const WireHeader& header = *decoded;
  const FrameExtent parts = extent(header, range(header, shape_).bytes);
  const bool ours = header.epoch == shape_.epoch;
  if (ours) WREATH_TRY(check(header));
  const bool copied = parts.bytes <= kCopiedBytes;
  if (buffered() < parts.prefix + (copied ? parts.bytes : 0)) return false;
  if (published_ && !copied && ours) return false;
  if (ours) take_report(header);
  if (is_checked(header.kind)) checksum_ = checksum_in(buffer_.get() + begin_);
  begin_ += parts.prefix;
  if (!has_message(header.kind)) {
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
  bytes_ = parts.bytes;
  done_ = 0;
  remaining_ = parts.bytes;
  large_ = !copied;
  WREATH_TRY(take(target_, std::min(buffered(), remaining_)));
  if (parts.bytes == 0) WREATH_TRY(finish_payload());
  return true;
}

void FrameReader::abandon(const WireHeader& part) {
  const bool same = header_.lane == part.lane && header_.sequence == part.sequence && header_.credit == part.credit;
  if (remaining_ > 0 && same) target_ = nullptr;
}

// Moves buffered bytes into the payload under way.
Status FrameReader::take(std::byte* target, std::size_t bytes) {
  if (bytes == 0) return {};
  if (target != nullptr) std::memcpy(target + done_, buffer_.get() + begin_, bytes);
  begin_ += bytes;
  done_ += bytes;
  remaining_ -= bytes;
  return remaining_ == 0 ? finish_payload() : Status();
}

// Hands over the payload, which is here as a whole, unless it is thrown away.
Status FrameReader::finish_payload() {
  skip_ = extent(header_, bytes_).tail;
  if (target_ == nullptr) return {};
  if (is_checked(header_.kind) && checksum({target_, bytes_}) != checksum_) {
    return Error{ErrorCode::PeerLost,
                 fmt::format("message {} of lane {}, {} bytes, was altered on its way: its checksum is wrong",
                             header_.sequence, header_.lane, header_.bytes)};
  }
  take_payload(header_, target_);
  published_ = true;
  return {};
}

}  // namespace wreath
