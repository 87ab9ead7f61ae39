// A frame of the tcp transport is a 32-byte header, the message, and padding to 64 bytes.
//
// A message of at most kCopiedBytes follows its header directly, so that both are sent as one buffer. Before a larger
// one stand 64 + `padding` bytes in all. The kernel's copy is slow where source and destination differ by 1 to 63 bytes
// modulo 4096. So the sender pads a payload to the same place in its 64-byte line as it has in memory. Every frame is a
// multiple of 64 bytes long. Where the shape says so, a message's checksum stands behind its header. Over several
// sockets a large message goes in parts, and each part is a frame. Everything here is a pure function of its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/fifo/wire/window.hpp"
#include "wreath/link.hpp"
#include "wreath/result.hpp"

namespace wreath {

enum class FrameKind : std::uint8_t {
  Data = 1,         // a message
  Credit = 2,       // only a credit
  Checked = 3,      // a message with its checksum
  Part = 4,         // a part of a large message
  CheckedPart = 5,  // a part of a large message with the part's checksum
  Arrival = 6,      // only a credit, and which messages have arrived
};

// The frames of a link. Whole: the first three kinds, over one socket. Parts: over several sockets, where messages come
// in any order; large ones are Part or CheckedPart, and Arrival stands for Credit. Either: as Parts, but a large
// message may also come whole, since the link has one socket at times.
enum class Framing : std::uint8_t { Whole, Parts, Either };

struct WireHeader {
  FrameKind kind = FrameKind::Data;
  // The number of bytes before a large payload, beyond the first 64. It is 0 to 63.
  std::uint8_t padding = 0;
  std::uint16_t epoch = 0;
  std::uint16_t lane = 0;  // of the message
  // The lane of which this frame's sender reports its receiving end. A part reports none.
  std::uint16_t credit_lane = 0;
  // The message's number. In an Arrival all messages of credit_lane before this one have arrived.
  std::uint32_t sequence = 0;
  std::uint32_t signature = 0;
  std::uint32_t bytes = 0;  // of the message
  // The sender of this frame is done with all sequences of credit_lane before this one. In a part it is the number of
  // the part.
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

constexpr bool is_part(FrameKind kind) { return kind == FrameKind::Part || kind == FrameKind::CheckedPart; }
constexpr bool is_checked(FrameKind kind) { return kind == FrameKind::Checked || kind == FrameKind::CheckedPart; }
constexpr bool has_message(FrameKind kind) { return kind != FrameKind::Credit && kind != FrameKind::Arrival; }

// A message has at most so many parts.
inline constexpr std::uint32_t kMostMessageParts = 32;
// Returns the bytes of every part but the last one.
constexpr std::uint32_t part_bytes(const FifoShape& shape) {
  constexpr std::uint32_t kLeast = 64 * 1024;
  const std::uint32_t share = shape.slot_bytes / kMostMessageParts;
  return share > kLeast ? share : kLeast;
}
// Returns the number of parts of a message.
constexpr std::uint32_t parts_of(std::uint32_t bytes, const FifoShape& shape) {
  const std::uint32_t part = part_bytes(shape);
  return bytes == 0 ? 1 : (bytes - 1) / part + 1;
}
// Says where a frame's payload is in its message.
struct PartRange {
  std::uint32_t offset;
  std::uint32_t bytes;
};
PartRange range(const WireHeader& header, const FifoShape& shape) noexcept;

// The extents of a frame's pieces: prefix (header and padding), payload, and tail padding.
struct FrameExtent {
  std::size_t prefix;
  std::size_t bytes;
  std::size_t tail;
};
// Returns them for a frame with so many bytes of payload.
FrameExtent extent(const WireHeader& header, std::size_t payload) noexcept;
// Returns them for a frame that carries its whole message, or none.
inline FrameExtent extent(const WireHeader& header) noexcept { return extent(header, header.bytes); }

// Returns the padding that a large payload at `data` needs.
std::uint8_t padding_for(const std::byte* data) noexcept;

// Writes kWireHeaderBytes bytes to `target`, little-endian.
void encode(const WireHeader& header, std::byte* target) noexcept;

// Writes the checksum of a payload behind its header, whose kind is a checked one. `frame` is the beginning of the
// frame.
void put_checksum(std::byte* frame, std::uint64_t checksum) noexcept;
// Returns the checksum that put_checksum() wrote.
std::uint64_t checksum_in(const std::byte* frame) noexcept;

// Reads and checks a header: each field is in range for `shape` and `framing`. PeerLost names the field and its value.
// A header of another epoch is checked only as far as its length needs.
Result<WireHeader> decode(std::span<const std::byte, kWireHeaderBytes> source, const FifoShape& shape,
                          Framing framing = Framing::Whole);

}  // namespace wreath
