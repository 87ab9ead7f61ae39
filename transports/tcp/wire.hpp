// A frame of the tcp transport is a 32-byte header, the message, and padding to 64 bytes.
//
// A message of at most kCopiedBytes follows its header directly, so that both are sent as one buffer. Before a larger
// one stand 64 + `padding` bytes in all. The kernel's copy is slow where source and destination differ by 1 to 63 bytes
// modulo 4096. So the sender pads a payload to the same place in its 64-byte line as it has in memory. Every frame is a
// multiple of 64 bytes long. Where the shape says so, a message's checksum stands behind its header. Everything here is
// a pure function of its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/fifo/wire/window.hpp"
#include "wreath/link.hpp"
#include "wreath/result.hpp"

namespace wreath {

enum class FrameKind : std::uint8_t {
  Data = 1,     // a message
  Credit = 2,   // only a credit
  Checked = 3,  // a message with its checksum
};

struct WireHeader {
  FrameKind kind = FrameKind::Data;
  // The number of bytes before a large payload, beyond the first 64. It is 0 to 63.
  std::uint8_t padding = 0;
  std::uint16_t epoch = 0;
  std::uint16_t lane = 0;  // of the message
  // The lane of which this frame's sender reports its receiving end.
  std::uint16_t credit_lane = 0;
  std::uint32_t sequence = 0;
  std::uint32_t signature = 0;
  std::uint32_t bytes = 0;  // of the message
  // The sender of this frame is done with all sequences of credit_lane before this one.
  std::uint32_t credit = 0;

  // Lists the fields between the magic number and the check.
  template <typename Self, typename Visit>
  static void each_field(Self& self, Visit visit) {
    visit(self.kind, 4);
    visit(self.padding, 5);
    visit(self.epoch, 6);
    visit(self.lane, 8);
    visit(self.credit_lane, 10);
    visit(self.sequence, 12);
    visit(self.signature, 16);
    visit(self.bytes, 20);
    visit(self.credit, 24);
  }
  bool operator==(const WireHeader&) const = default;
};

inline constexpr std::size_t kWireHeaderBytes = 32;
inline constexpr std::size_t kChecksumBytes = 8;
inline constexpr std::size_t kWireAlignment = 64;
inline constexpr std::size_t kLongestPrefix = 64 + 63;  // before a large payload
inline constexpr std::size_t kLongestCopied = kWireHeaderBytes + kChecksumBytes + kCopiedBytes + 63;

// The extents of a frame's parts: prefix (header and padding), bytes of message, and tail padding.
struct FrameExtent {
  std::size_t prefix;
  std::size_t bytes;
  std::size_t tail;
};
FrameExtent extent(const WireHeader& header) noexcept;

// Returns the padding that a large payload at `data` needs.
std::uint8_t padding_for(const std::byte* data) noexcept;

// Writes kWireHeaderBytes bytes to `target`, little-endian.
void encode(const WireHeader& header, std::byte* target) noexcept;

// Writes the checksum of a message behind its header, of kind Checked. `frame` is the beginning of the frame.
void put_checksum(std::byte* frame, std::uint64_t checksum) noexcept;
// Returns the checksum that put_checksum() wrote.
std::uint64_t checksum_in(const std::byte* frame) noexcept;

// Reads and checks a header: each field is in range for `shape`. PeerLost names the field and its value. A header of
// another epoch is checked only as far as its length needs.
Result<WireHeader> decode(std::span<const std::byte, kWireHeaderBytes> source, const FifoShape& shape);

}  // namespace wreath
