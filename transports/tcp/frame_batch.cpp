// Gathers frames and sends them: see frame_batch.hpp.
#include "transports/tcp/frame_batch.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "src/base/hash.hpp"
#include "src/base/planted_fault.hpp"
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

FrameBatch::FrameBatch(int socket, TcpCounts& counts)
    : socket_(socket), counts_(counts), scratch_(std::make_unique_for_overwrite<std::byte[]>(kScratchBytes)) {}

void FrameBatch::clear() {
  first_piece_ = end_piece_ = 0;
  scratch_used_ = bytes_ = sent_ = 0;
  blocked_ = false;
}

bool FrameBatch::has_room() const {
  const std::size_t room = kLongestCopied + kLongestPrefix + 63;
  return end_piece_ + 4 <= kPieces && scratch_used_ + room <= kScratchBytes - kCreditBytes;
}

std::size_t FrameBatch::add(const WireHeader& header, const std::byte* data, std::size_t bytes) {
  const FrameExtent parts = extent(header, bytes);
  const bool copied = header.bytes <= kCopiedBytes;
  std::byte* prefix = reserve(parts.prefix + (copied ? bytes : 0));
  encode(header, prefix);
  if (copied) {
    if (bytes > 0) std::memcpy(prefix + parts.prefix, data, bytes);
  } else {
    std::memset(prefix + kWireHeaderBytes, 0, parts.prefix - kWireHeaderBytes);
    append(data, bytes);
  }
  if (is_checked(header.kind)) put_checksum(prefix, checksum({data, bytes}));
  const std::size_t end = bytes_;
  if (parts.tail > 0) std::memset(reserve(parts.tail), 0, parts.tail);
  return end;
}

void FrameBatch::add_credit(const WireHeader& header) {
  std::byte* frame = reserve(kWireAlignment);
  encode(header, frame);
  std::memset(frame + kWireHeaderBytes, 0, kWireAlignment - kWireHeaderBytes);
}

// Adds `bytes` bytes of scratch memory to the batch. The caller fills them.
std::byte* FrameBatch::reserve(std::size_t bytes) {
  std::byte* data = scratch_.get() + scratch_used_;
  scratch_used_ += bytes;
  append(data, bytes);
  return data;
}

void FrameBatch::append(const std::byte* data, std::size_t bytes) {
  bytes_ += bytes;
  if (end_piece_ > 0) {
    iovec& last = pieces_[end_piece_ - 1];
    if (static_cast<const std::byte*>(last.iov_base) + last.iov_len == data) {
      last.iov_len += bytes;
      return;
    }
  }
  pieces_[end_piece_++] = {const_cast<std::byte*>(data), bytes};
}

Result<std::size_t> FrameBatch::send() {
  ssize_t sent;
  do {
    ++counts_.sends;
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

void FrameBatch::accepted(std::size_t bytes) {
  sent_ += bytes;
  while (bytes > 0) {
    iovec& piece = pieces_[first_piece_];
    const std::size_t part = bytes < piece.iov_len ? bytes : piece.iov_len;
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + part;
    piece.iov_len -= planted_fault(9) ? piece.iov_len : part;
    bytes -= part;
    if (piece.iov_len == 0) ++first_piece_;
  }
}

}  // namespace wreath
