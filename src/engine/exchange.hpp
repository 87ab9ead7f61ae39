// Sends and receives that run as one operation: the messages, their checks, and the plan made for them.
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

inline constexpr std::uint16_t kLanes = 16;  // of every FIFO shape
// The last one is for exchanges; no algorithm's lane has this number. One FIFO per pair and direction carries all
// messages of that pair, one after the other.
inline constexpr std::uint16_t kExchangeLane = kLanes - 1;

enum class Direction : std::uint8_t { Send, Receive };

// One send or receive.
struct ExchangeMessage {
  Rank peer = 0;
  DataType dtype = DataType::Uint8;
  std::uint64_t count = 0;    // elements
  std::byte* data = nullptr;  // only read where it is sent
  std::uint64_t number = 0;   // of the messages from its sender to its receiver, from 1; of none to the own rank

  std::uint64_t bytes() const { return count * size_of(dtype); }
};

// Those of one operation, each list in the order of its calls. Messages to and from the own rank are paired in order.
struct ExchangeMessages {
  std::vector<ExchangeMessage> sends;     // Input part i is sends[i]
  std::vector<ExchangeMessage> receives;  // Output part j is receives[j]

  bool empty() const { return sends.empty() && receives.empty(); }
  const std::vector<ExchangeMessage>& of(Direction direction) const {
    return direction == Direction::Send ? sends : receives;
  }
};

// What a buffer of an exchange holds: the messages of one direction, wherever they are. Offsets count from `first`, the
// lowest address.
struct MessageTable {
  std::byte* first = nullptr;
  std::uint64_t span = 0;  // bytes from `first` to the end of the last message
  std::vector<std::uint64_t> counts;
  std::vector<std::uint64_t> offsets;

  void assign(const std::vector<ExchangeMessage>& messages);
  PartTable parts() const { return {span, 0, 0, counts.data(), offsets.data()}; }
};

// Elements are bytes and data lanes do not share parts. To be filled again and again: vectors keep their memory.
struct ExchangePlan {
  // Where a message's step comes.
  struct Place {
    int round;
    Direction direction;
    std::uint32_t part;
    auto operator<=>(const Place&) const = default;  // NOLINT(modernize-use-nullptr): a 0 that nobody wrote
    std::pair<int, Direction> lane() const { return {round, direction}; }
  };

  Plan bound;  // its FIFOs are for whoever made the plan to fill in
  Geometry geometry;
  MessageTable input;
  MessageTable output;
  std::vector<Place> places;
  std::vector<Rank> peers;       // the lanes were made for these
  std::vector<Rank> next_peers;  // and will be for these, where they differ
};

// The plan of `messages` (checked) on rank `me` of `ranks`, with messages of `tile_bytes` at most.
//
// Lanes are in rounds: round 0 copies what the rank sends itself, round k sends to (me + k) mod n and receives from
// (me - k) mod n, on a lane each; a lane does its messages one after the other, all tiles of one before the next. A
// message's tiles depend on its size alone, so both ends agree on them however they group their calls.
//
// Why lanes that run round after round cannot deadlock, however few rounds are resident: a message of round k is
// received in round k, too. Let k be the lowest round that is unfinished anywhere. Whoever has a lane of round k has
// finished all lower rounds, and lanes become resident in their order, so all lanes of round k are resident; they
// depend on each other only, in pairs of a sender and a receiver with the same messages in the same order, and with
// one slot such a pair comes to its end. This takes both ends to have matching messages in matching
// operations; ranks that split them differently (one calls in a group what the other calls one by one) must be able to
// run with all rounds resident.
//
// Lanes are made anew only where the peers differ from those of the last messages in `plan`: true then, and `bound` is
// to be bound to FIFOs.
bool plan_exchange(const ExchangeMessages& messages, Rank me, int ranks, std::uint64_t tile_bytes, ExchangePlan& plan);

}  // namespace wreath
