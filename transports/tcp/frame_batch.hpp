// A batch of frames is sent by one system call each time, in {prefix, payload} pieces. Small messages are copied beside
// their headers.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <memory>

#include "transports/tcp/counts.hpp"
#include "transports/tcp/wire.hpp"
#include "wreath/result.hpp"

namespace wreath {

class FrameBatch {
 public:
  // The batch adds to `counts`.
  FrameBatch(int socket, TcpCounts& counts);

  // Forgets all frames, sent or not.
  void clear();
  // Says whether one more message fits, with room left for credit frames.
  bool has_room() const;
  // Says whether one more credit frame fits.
  bool has_credit_room() const { return scratch_used_ + kWireAlignment <= kScratchBytes; }
  // Adds a frame whose payload is at `data`. A payload of more than kCopiedBytes, and that of a part, stays there until
  // it is sent. Returns the bytes of the batch up to the end of the payload.
  std::size_t add(const WireHeader& header, const std::byte* data, std::size_t bytes);
  // Adds a frame without a payload.
  void add_credit(const WireHeader& header);

  // Hands to the kernel what it takes now, and returns the bytes moved. Fails with an error of the stream.
  Result<std::size_t> send();

  // Says whether the kernel left something at the last call.
  bool blocked() const { return blocked_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t sent() const { return sent_; }
  std::size_t unsent() const { return bytes_ - sent_; }

 private:
  std::byte* reserve(std::size_t bytes);
  void append(const std::byte* data, std::size_t bytes);
  void accepted(std::size_t bytes);

  static constexpr std::size_t kScratchBytes = 64 * 1024;  // prefixes, small messages, credit frames
  static constexpr std::size_t kCreditBytes = 8 * 1024;    // kept for credit frames
  static constexpr std::size_t kPieces = 96;

  int socket_;
  TcpCounts& counts_;
  std::array<iovec, kPieces> pieces_;
  std::size_t first_piece_ = 0;
  std::size_t end_piece_ = 0;
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_used_ = 0;
  std::size_t bytes_ = 0;
  std::size_t sent_ = 0;
  bool blocked_ = false;
};

}  // namespace wreath
