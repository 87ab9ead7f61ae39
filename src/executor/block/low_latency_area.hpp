// The memory of all_reduces by the protocol LL. A rank alone writes its area, and its peers map and read it.
//
// Data travel in words of 8 bytes: 4 of data and 4 of flag. A store of 8 aligned bytes is seen whole or not at all. So
// a reader that sees the flag has the data, without a fence and without a second round trip for a separate flag. This
// costs twice the bytes: 2 S to read for each peer's S. Lines of 128 bytes with one flag of 8 would cost 16/15 of S.
// But they need a warp that loads a line at once, which the memory of a host's threads does not promise. This protocol
// is used up to 1 MiB, where time goes into the flight of the first word.
//
// Each block of a grid has a place of its own in the area: a counter of its calls and two buffers. Calls take turns
// with the buffers. The counter lives on the device, so that a graph's replays count on.
//
// No call has to end with a barrier. Block b of a rank writes a buffer in call i and again in call i + 2. By then it
// has ended call i + 1, in which it read the header of block b of every peer. A peer that wrote this header had ended
// its grid of call i, by its stream's order. So the peer had ended all reads of that buffer, too. This needs the same
// calls on all ranks, with the same number of blocks. Each rank's calls are in one stream, or in streams that wait for
// each other.
//
// A flag is the call's number mod 2^31 with the highest bit set, so a zeroed word holds no call's flag. A word that was
// last written 2^31 calls ago would look like the present call's. So every 2^30 calls a block clears each buffer before
// it uses the buffer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/block/flagged_word.hpp"

namespace wreath {

// The most bytes of a vector that is summed, in the form in which it travels.
inline constexpr std::size_t kLowLatencyBytes = std::size_t{1} << 20;
inline constexpr std::size_t kLowLatencyBlocks = 16;

// A thread handles so many bytes at once: two words.
inline constexpr std::size_t kPackDataBytes = 8;

// The layout of a block's part of the area.
struct LowLatencyLayout {
  static constexpr std::size_t kPacks = kLowLatencyBytes / kPackDataBytes / kLowLatencyBlocks;  // of the vector
  static constexpr std::size_t kPackBytes = 2 * sizeof(FlaggedWord);
  // The header is a word whose data is the call's signature.
  static constexpr std::size_t kHeader = 0;
  static constexpr std::size_t kInputs = 64;
  static constexpr std::size_t kSums = kInputs + kPacks * kPackBytes;
  // The packs of a rank's part of the vector, with two ranks or more.
  static constexpr std::size_t kSumPacks = kPacks / 2 + 1;
  static constexpr std::size_t kBufferBytes = (kSums + kSumPacks * kPackBytes + 127) / 128 * 128;
  // The buffers follow the counter of calls, a std::uint32_t.
  static constexpr std::size_t kBuffer = 128;
  static constexpr std::size_t kBlockBytes = kBuffer + 2 * kBufferBytes;
};

// The bytes of one rank's area: 6.1 MiB for any number of ranks. The area is aligned to 128 bytes, and zeroed before
// the first call.
inline constexpr std::size_t kLowLatencyAreaBytes = kLowLatencyBlocks * LowLatencyLayout::kBlockBytes;

// Returns the number of blocks of the grid, the same on all ranks. An element has `element_bytes` as it travels: for
// premultiplied sums, the bytes of the accumulator. A block sums 8 KiB, and more where blocks run out.
WREATH_HOST_DEVICE constexpr int low_latency_blocks(std::size_t elements, std::size_t element_bytes) {
  constexpr std::size_t kOfBlock = 8 * 1024;
  const std::size_t blocks = (elements * element_bytes + kOfBlock - 1) / kOfBlock;
  if (blocks == 0) return 1;
  return static_cast<int>(blocks < kLowLatencyBlocks ? blocks : kLowLatencyBlocks);
}

}  // namespace wreath
