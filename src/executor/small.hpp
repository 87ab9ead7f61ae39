// Runs collectives of small messages without FIFOs, as plain code over peers' small areas.
//
// A rank writes its message once, into its own area; the ranks that need the message read it there. Up to 1 KiB the
// flag is in the data's cache line (56 bytes of data and 8 of {sequence, signature}). A longer message has one header
// line and a block. All ranks number these calls alike. In each area call i uses buffer i mod N, where N counts the
// protocol's buffers. With a wide ring (tuner/ring.hpp), blocks above 2 KiB follow each other in a ring instead, which
// has room for those of N calls. A rank may write in call i when every rank is past call i - N. A rank whose message
// was read in call i is past all calls before i. A rank whose messages nobody reads has a flag of its own, which says
// how far the rank is. The rank sets this flag every 8th call and before it waits. The signature in it covers its call
// and all calls before it. So ranks that only write are compared, too.
//
// Two ranks that fill ping-pong places do otherwise with blocks where both write. Each place is in turn one rank's and
// the other's: a rank writes where it has read in the last such call, so that no place must be waited for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/kernels.hpp"
#include "src/executor/slot_fill.hpp"
#include "src/executor/try_step.hpp"
#include "wreath/call.hpp"
#include "wreath/link.hpp"

namespace wreath {

// The part of one rank in a call, and in all calls that are like it but for their buffers and signatures.
struct SmallPart {
  SmallPart() = default;
  // The small protocols do not serve premultiplied sums, whose inputs are multiplied by their own ranks.
  SmallPart(const Call& call, int rank, int ranks);

  // Returns the rank's own data; null where it has none.
  const std::byte* own(const std::byte* input) const { return input == nullptr ? nullptr : input + own_offset; }
  // Returns the place in the output for the bytes that come from `rank`.
  std::byte* place_of(std::byte* output, int rank) const {
    return output + static_cast<std::size_t>(rank) * result_stride;
  }
  // Copies the data of this rank, whose number is `rank`, to its place in the output, unless they are combined.
  void copy_own(const std::byte* input, std::byte* output, int rank) const {
    if (combines || !has_result || bytes == 0 || place_of(output, rank) == own(input)) return;
    copy_kernels().plain(place_of(output, rank), own(input), bytes);
  }
  // Combines the data of all ranks, by rank, if this rank gets a result of that.
  void combine_all(const std::byte* const* sources, int ranks, std::byte* output, int rank) const {
    if (!combines || !has_result) return;
    arithmetic.combine(arithmetic, output, Form::Data, sources, ranks, {Form::Data, rank, Form::Data}, elements);
  }

  // Counts the elements of the call, and their bytes. The rank takes so many bytes of every message.
  std::size_t elements = 0;
  std::size_t bytes = 0;
  std::size_t message_bytes = 0;
  // Where, in its input, the rank's own message begins.
  std::size_t sent_offset = 0;
  // The offset, in its input, of the rank's own bytes.
  std::size_t own_offset = 0;
  // The offset, in every message, of the bytes that this rank takes.
  std::size_t taken_offset = 0;
  // Where messages are lines, the rank takes so many of every message, from this one on.
  std::size_t first_line = 0;
  std::size_t lines = 1;
  // The bytes from one rank's place in the output to the next one's.
  std::size_t result_stride = 0;
  Arithmetic arithmetic;
  bool publishes = false;
  // The result is, or begins with, the rank's own data.
  bool has_result = false;
  bool combines = false;
  // The bytes that the rank takes of a message are combined where they lie, in one line.
  bool combines_in_place = false;
  // All ranks read all messages.
  bool from_all = false;
  // The rank reads ranks [first_source, end_source). These two stand last, so that no member lies in two stores of a
  // copy. Its load would wait until both are in the cache.
  int first_source = 0;
  int end_source = 0;
};

// Both are the same on all ranks.
struct SmallShape {
  // No message is larger: kSmallMessageBytes, or kPairMessageBytes where the areas have room for it.
  std::size_t most_bytes = kSmallMessageBytes;
  std::uint32_t first_sequence = 0;
  // The memory of two ranks, by rank, of kSmallPingPongBytes each, which both may write; null where there is none.
  std::array<std::byte*, 2> ping_pong = {};
};

// Places in turn, of which each rank has as many in its memory.
struct PingPongPlaces {
  std::size_t offset;  // of the first in the memory of either rank
  std::size_t bytes;   // of one
  std::uint32_t count;
};
inline constexpr PingPongPlaces kPingPongBlocks{0, 5 * 4096, 1};
// Larger messages take a tenth to a third less time where a rank does not fill the very place that it has just read.
inline constexpr PingPongPlaces kPingPongLargeBlocks{5 * 4096, 17 * 4096, 2};
static_assert(kPingPongLargeBlocks.offset + 2 * kPingPongLargeBlocks.bytes == kSmallPingPongBytes);

class SmallExchange {
 public:
  SmallExchange() = default;
  // `areas[r]` is rank r's small area as this process sees it, zeroed before the first call. `areas[rank]` is `own`,
  // which is writable.
  SmallExchange(int rank, std::vector<const std::byte*> areas, std::byte* own, const SmallShape& shape);

  // Begins a call, which run() ends.
  void start(const Call& call, std::uint32_t signature) {
    start(SmallPart(call, rank_, static_cast<int>(areas_.size())), call.input, call.output, signature);
  }
  // Begins a call in which this rank has `part`. The others are no struct, since one load would copy both pointers, and
  // it would wait until the two stores are in the cache.
  void start(const SmallPart& part, const std::byte* input, std::byte* output, std::uint32_t signature);
  // Says whether such a call uses the ring at the end of each area, which must be present before.
  bool uses_ring(const SmallPart& part) const {
    return has_ring_ && part.message_bytes > kStoreBufferBytes && !plays_ping_pong(part);
  }
  // Returns Done once this rank's part in the call is over; never waits. Returns Failed where a peer is in another
  // call.
  Advance run();
  // Returns whether start() or run() has stored something that a sleeping peer may wait for, since this was last asked.
  bool take_told() { return std::exchange(told_, false); }

  // Returns how many bytes this rank has read from peers' areas in the present call so far.
  std::uint64_t loaded_bytes() const { return loaded_bytes_; }

  // Returns the peer whose message or flag is missing. After Failed it is the peer whose signature differs.
  int waiting_for() const { return peer_; }

 private:
  // Returns the number of buffers of the call's protocol.
  std::uint32_t buffers() const;
  bool plays_ping_pong(const SmallPart& part) const {
    return part.message_bytes > kLineMessageBytes && part.from_all && ping_pong_[0] != nullptr;
  }
  void pass_ping_pong();
  void pass_lines();
  void pass_block();
  // Returns the message of a peer in this call.
  const std::byte* message_of(int peer) const {
    return ping_pong_message_ != nullptr ? ping_pong_message_ : areas_[static_cast<std::size_t>(peer)] + place_;
  }
  bool lines() const { return part_.message_bytes <= kLineMessageBytes; }
  Advance find_free_buffer();
  bool differs(std::uint64_t past) const;
  void publish();
  void publish_lines();
  void take_own();
  Advance take_lines(int peer);
  Advance take_block(int peer);
  void fetch_next() const;
  void finish();
  Advance blocked();
  void tell_past(std::uint32_t number);

  static constexpr std::size_t kLineMessageBytes = 1024;

  int rank_ = 0;
  std::vector<const std::byte*> areas_;
  std::byte* own_ = nullptr;
  bool has_ring_ = false;
  std::size_t ring_place_ = 0;  // of the next block, where it fits
  // The offsets in an area of the call's line or block and of the one that follows it.
  std::size_t place_ = 0;
  std::size_t next_place_ = 0;
  std::byte* own_place_ = nullptr;  // where this rank writes in this call
  std::array<std::byte*, 2> ping_pong_;
  std::array<std::uint32_t, 2> ping_pong_calls_{};  // of blocks and of large blocks
  const std::byte* ping_pong_message_ = nullptr;    // the peer's in this call; null where it is in its area
  std::vector<const std::byte*> sources_;           // by rank: the place of its data
  FillHistory past_caches_;                         // for blocks
  SlotFill slot_fill_;
  // Lines without their flags, kLineMessageBytes for each rank.
  std::vector<std::byte> gathered_;
  std::uint32_t first_sequence_ = 0;

  SmallPart part_;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  std::uint64_t flag_ = 0;  // of the call's messages
  bool published_ = true;
  bool told_ = false;
  bool looked_ = false;
  std::uint32_t number_ = 0;    // of the call; wraps
  std::uint32_t all_past_ = 0;  // all ranks are past this call
  // All ranks can know that this rank is past this call.
  std::uint32_t heard_past_ = 0;
  // The call in which this rank last looked how far all ranks are.
  std::uint32_t looked_past_ = 0;
  std::array<std::uint32_t, 64> signatures_{};  // signatures of the last calls, by number
  int peer_ = 0;
  std::size_t line_ = 0;
  std::uint64_t loaded_bytes_ = 0;
};

}  // namespace wreath
