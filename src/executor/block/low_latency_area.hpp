// The memory of all_reduces by the protocol LL: a rank's area, which it alone writes and its peers map and read.
//
// Data travel in words of 8 bytes, 4 of data and 4 of flag: a store of 8 aligned bytes is seen whole or not at all, so
// who sees the flag has the data, without a fence and without a second round trip for a separate flag. It costs twice
// the bytes: 2 S to read for each peer's S. Lines of 128 bytes with one flag of 8 would cost 16/15 of S, but need a
// warp that loads a line at once, which the memory of a host's threads does not promise; and where this protocol is
// used, up to 1 MiB, time goes into the flight of the first word.
//
// Each block of a grid has a place of its own in the area: a counter of its calls, which lives on the device so that a
// graph's replays count on, and two buffers, of which calls take turns.
//
// Why no call has to end with a barrier: block b of a rank writes a buffer in call i and again in call i + 2. It has
// then ended call i + 1, in which it read the header of block b of every peer, and a peer that wrote the header of call
// i + 1 had ended its grid of call i, by its stream's order, and with it all reads of that buffer. Hence: all ranks
// make the same calls with the same number of blocks, and each rank's in one stream, or in streams that wait for each
// other.
//
// Flags are the call's number mod 2^31 with the highest bit set: a zeroed word holds no call's flag. A word that was
// last written 2^31 calls ago would look like the present call's: so every 2^30 calls a block clears each buffer before
// it uses it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/block/flagged_word.hpp"

namespace wreath {

// Of the vector that is summed, in the form it travels in: up to so many bytes.
inline constexpr std::size_t kLowLatencyBytes = std::size_t{1} << 20;
inline constexpr std::size_t kLowLatencyBlocks = 16;

inline constexpr std::size_t kPackDataBytes = 8;  // what a thread handles at once: two words

// A block's part of the area.
struct LowLatencyLayout {
  static constexpr std::size_t kPacks = kLowLatencyBytes / kPackDataBytes / kLowLatencyBlocks;  // of the vector
  static constexpr std::size_t kPackBytes = 2 * sizeof(FlaggedWord);
  static constexpr std::size_t kHeader = 0;  // a word of which the data is the call's signature
  static constexpr std::size_t kInputs = 64;
  static constexpr std::size_t kSums = kInputs + kPacks * kPackBytes;
  static constexpr std::size_t kSumPacks = kPacks / 2 + 1;  // a rank's part of the vector, of two ranks or more
  static constexpr std::size_t kBufferBytes = (kSums + kSumPacks * kPackBytes + 127) / 128 * 128;
  static constexpr std::size_t kBuffer = 128;  // after the counter of calls, a std::uint32_t
  static constexpr std::size_t kBlockBytes = kBuffer + 2 * kBufferBytes;
};

// Of one rank's area, aligned to 128 bytes and zeroed before the first call: 6.1 MiB for any number of ranks.
inline constexpr std::size_t kLowLatencyAreaBytes = kLowLatencyBlocks * LowLatencyLayout::kBlockBytes;

// Whether a vector of `elements`, each of `element_bytes` as they travel (of premultiplied sums the accumulator's),
// fits.
WREATH_HOST_DEVICE constexpr bool fits_low_latency(std::size_t elements, std::size_t element_bytes) {
  return elements <= kLowLatencyBytes / element_bytes;
}

// The blocks of its grid, the same on all ranks: 8 KiB each, and more where there are no more blocks.
WREATH_HOST_DEVICE constexpr int low_latency_blocks(std::size_t elements, std::size_t element_bytes) {
  constexpr std::size_t kOfBlock = 8 * 1024;
  const std::size_t blocks = (elements * element_bytes + kOfBlock - 1) / kOfBlock;
  if (blocks == 0) return 1;
  return static_cast<int>(blocks < kLowLatencyBlocks ? blocks : kLowLatencyBlocks);
}

}  // namespace wreath
