// A message that is put into a peer's slots has a header of 64 bytes, and the peer is told 32 bits of each part that it
// must count. Everything here is a pure function of its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/fifo/wire/window.hpp"
#include "wreath/link.hpp"
#include "wreath/result.hpp"

namespace wreath {

inline constexpr std::size_t kPutHeaderBytes = 64;
// A small slot has the header of a message, and data of up to kCopiedBytes behind it.
inline constexpr std::size_t kSmallSlotBytes = kPutHeaderBytes + kCopiedBytes;
static_assert(kSmallSlotBytes % 64 == 0);

constexpr std::size_t small_slots_bytes(const FifoShape& shape) { return window_messages(shape) * kSmallSlotBytes; }

// The header is told as part 0 of its message, and data as parts 1 and up. kCreditPart tells how far the peer has
// consumed a lane.
inline constexpr std::uint32_t kCreditPart = 7;
inline constexpr std::uint32_t kMostParts = kCreditPart;

// So many credit puts of a lane may be under way that have not ended.
inline constexpr std::uint32_t kMostCredits = 4;

// A put tells this, in up to 32 bits. The low bits of a sequence are enough to find it in a window.
struct Told {
  static constexpr std::uint32_t kLaneBits = 5;
  static constexpr std::uint32_t kPartBits = 3;
  std::uint32_t lane = 0;
  std::uint32_t part = 0;
  std::uint32_t sequence = 0;  // its low bits
  std::uint32_t bits = 32;     // of all three

  constexpr std::uint32_t sequence_bits() const { return bits - kLaneBits - kPartBits; }
  constexpr std::uint32_t sequence_mask() const { return (1U << sequence_bits()) - 1; }
  // Returns how far the sequence is behind `from`, in the order of sequences.
  std::uint32_t since(std::uint32_t from) const { return (sequence - from) & sequence_mask(); }
};
static_assert(kCreditPart < (1U << Told::kPartBits));
// A number of lanes that is not below this one tells of the place of a message: of lane - kMostLanes.
inline constexpr std::uint32_t kMostLanes = 1U << (Told::kLaneBits - 1);
inline constexpr std::uint32_t kFewestToldBits = Told::kLaneBits + Told::kPartBits + 6;

// A window is four times the slots, and half of the sequences tell of what is behind it.
constexpr std::uint32_t most_slots(std::uint32_t told_bits) {
  return 1U << (Told{.bits = told_bits}.sequence_bits() - 4);
}

constexpr std::uint32_t pack(const Told& told) {
  return (told.lane << Told::kPartBits | told.part) << told.sequence_bits() | (told.sequence & told.sequence_mask());
}
constexpr Told unpack(std::uint32_t word, std::uint32_t bits = 32) {
  Told told{.bits = bits};
  const std::uint32_t above = word >> told.sequence_bits();
  told.lane = above >> Told::kPartBits;
  told.part = above & ((1U << Told::kPartBits) - 1);
  told.sequence = word & told.sequence_mask();
  return told;
}

struct PutHeader {
  std::uint16_t epoch = 0;
  std::uint16_t lane = 0;
  std::uint32_t sequence = 0;
  std::uint32_t signature = 0;
  std::uint32_t bytes = 0;     // of data
  std::uint8_t parts = 1;      // so many puts of the message tell
  std::uint8_t landed = 0;     // 1: the data is in the place that the receiver has named, and not in a slot
  std::uint64_t checksum = 0;  // of the fields above and the data, where the shape says so

  // Lists the fields behind the magic number. All other bytes are zero.
  template <typename Self, typename Visit>
  static void each_field(Self& self, Visit visit) {
    visit(self.epoch, 4);
    visit(self.lane, 6);
    visit(self.sequence, 8);
    visit(self.signature, 12);
    visit(self.bytes, 16);
    visit(self.parts, 20);
    visit(self.landed, 21);
    visit(self.checksum, 24);
  }
  bool operator==(const PutHeader&) const = default;
};

// Writes kPutHeaderBytes bytes to `target`, little-endian.
void encode(const PutHeader& header, std::byte* target) noexcept;
// Returns the checksum of a message whose other fields are set.
std::uint64_t checksum_of(const PutHeader& header, std::span<const std::byte> data) noexcept;

// Reads and checks the header of message `sequence` of `lane`: each field is in range for `shape`. PeerLost names the
// field and its value.
Result<PutHeader> decode(std::span<const std::byte, kPutHeaderBytes> source, const FifoShape& shape, std::uint16_t lane,
                         std::uint32_t sequence);

}  // namespace wreath
