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

// The 32 bits that a put tells. The low bits of a sequence are enough to find it in a window.
struct Told {
  static constexpr int kLaneBits = 5;
  static constexpr int kPartBits = 3;
  static constexpr int kSequenceBits = 24;
  static constexpr std::uint32_t kSequenceMask = (std::uint32_t{1} << kSequenceBits) - 1;
  std::uint32_t lane = 0;
  std::uint32_t part = 0;
  std::uint32_t sequence = 0;  // its low bits

  // Returns how far the sequence is behind `from`, in the order of sequences.
  std::uint32_t since(std::uint32_t from) const { return (sequence - from) & kSequenceMask; }
};
static_assert(Told::kLaneBits + Told::kPartBits + Told::kSequenceBits == 32);
static_assert(kCreditPart < (1U << Told::kPartBits));
inline constexpr std::uint32_t kMostLanes = 1U << Told::kLaneBits;
inline constexpr std::uint32_t kMostSlots = 1U << (Told::kSequenceBits - 4);  // a window is four times that

constexpr std::uint32_t pack(const Told& told) {
  return told.lane << (Told::kPartBits + Told::kSequenceBits) | told.part << Told::kSequenceBits |
         (told.sequence & Told::kSequenceMask);
}
constexpr Told unpack(std::uint32_t bits) {
  return {bits >> (Told::kPartBits + Told::kSequenceBits), bits >> Told::kSequenceBits & ((1U << Told::kPartBits) - 1),
          bits & Told::kSequenceMask};
}

struct PutHeader {
  std::uint16_t epoch = 0;
  std::uint16_t lane = 0;
  std::uint32_t sequence = 0;
  std::uint32_t signature = 0;
  std::uint32_t bytes = 0;     // of data
  std::uint8_t parts = 1;      // so many puts of the message tell
  std::uint64_t checksum = 0;  // of the fields above and the data, where the shape says so
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
