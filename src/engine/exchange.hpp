// These are sends and receives that run as one operation: their messages, and the plan made for them.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/executor/host.hpp"
#include "src/schedule/geometry.hpp"
#include "src/schedule/step.hpp"
#include "wreath/result.hpp"
#include "wreath/types.hpp"

namespace wreath {

// The number of lanes in every FIFO shape.
inline constexpr std::uint16_t kLanes = 16;
// The last lane is for exchanges, and no algorithm's lane has its number. One FIFO per pair and direction carries all
// messages of that pair, one after the other.
inline constexpr std::uint16_t kExchangeLane = kLanes - 1;

enum class Direction : std::uint8_t { Send, Receive };

// This is one send or receive.
struct ExchangeMessage {
  Rank peer = 0;
  DataType dtype = DataType::Uint8;
  std::uint64_t count = 0;  // elements
  // The data is only read where the message is sent.
  std::byte* data = nullptr;
  // The number among the messages from its sender to its receiver, from 1. A message to the own rank has none.
  std::uint64_t number = 0;

  std::uint64_t bytes() const { return count * size_of(dtype); }
};

// These are the messages of one operation. Each list is in the order of the calls. Messages to and from the own rank
// are paired in order.
struct ExchangeMessages {
  std::vector<ExchangeMessage> sends;     // Input part i is sends[i]
  std::vector<ExchangeMessage> receives;  // Output part j is receives[j]

  bool empty() const { return sends.empty() && receives.empty(); }
  const std::vector<ExchangeMessage>& of(Direction direction) const {
    return direction == Direction::Send ? sends : receives;
  }
};

// The table of a buffer of an exchange has the messages of one direction, at any addresses. Offsets count from `first`,
// the lowest address.
struct MessageTable {
  std::byte* first = nullptr;
  // The bytes from `first` to the end of the last message.
  std::uint64_t span = 0;
  std::vector<std::uint64_t> counts;
  std::vector<std::uint64_t> offsets;

  void assign(const std::vector<ExchangeMessage>& messages);
  PartTable parts() const { return {span, 0, 0, counts.data(), offsets.data()}; }
};

// The plan of an exchange. Its elements are bytes, and data lanes do not share parts. Its vectors keep their memory, so
// that the caller can fill it again and again.
struct ExchangePlan {
  // The place of a message's step in the order of lanes.
  struct Place {
    int round;
    Direction direction;
    std::uint32_t part;
    auto operator<=>(const Place&) const = default;  // NOLINT(modernize-use-nullptr): a 0 that nobody wrote
    std::pair<int, Direction> lane() const { return {round, direction}; }
  };

  // The maker of the plan fills in its FIFOs.
  Plan bound;
  Geometry geometry;
  MessageTable input;
  MessageTable output;
  std::vector<Place> places;
  std::vector<Rank> peers;       // the lanes were made for these
  std::vector<Rank> next_peers;  // and will be for these, where they differ
};

// The largest FIFO messages of a message, and of one of `large_message_bytes` bytes and more.
struct ExchangeTiles {
  std::uint64_t bytes;
  std::uint64_t large_bytes = bytes;
  std::uint64_t large_message_bytes = ~std::uint64_t{0};
};

// Plans the checked `messages` on rank `me` of `ranks`, with FIFO messages of these sizes.
//
// Lanes are in rounds. Round 0 copies what the rank sends itself. Round k sends to (me + k) mod n on one lane, and
// receives from (me - k) mod n on another. A lane moves all tiles of one message before the next message. The size of a
// message alone determines its tiles, so both ends agree on them in any grouping of their calls.
//
// Lanes that run round after round cannot deadlock, even with few resident rounds, for this reason. A message of round
// k is received in round k, too. Let k be the lowest round that is unfinished anywhere. Each rank with a lane of round
// k has finished all lower rounds. Lanes become resident in their order, so all lanes of round k are resident. They
// depend on each other only, in pairs of a sender and a receiver with the same messages in the same order. Such a pair
// needs only one slot to come to its end.
//
// The proof requires that both ends have matching messages in matching operations. Some ranks split them differently:
// one calls in a group what the other calls one by one. Such ranks must be able to run with all rounds resident.
//
// The function makes lanes anew only where the peers differ from those of the last messages in `plan`. It then returns
// true, and the caller binds `bound` to FIFOs.
bool plan_exchange(const ExchangeMessages& messages, Rank me, int ranks, const ExchangeTiles& tiles,
                   ExchangePlan& plan);

}  // namespace wreath
