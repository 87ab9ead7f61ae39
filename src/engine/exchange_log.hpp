// The numbers of the messages between this rank and its peers, and what the last ones were.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "src/engine/exchange.hpp"
#include "wreath/recording.hpp"

namespace wreath {

// A rank knows this of the messages between it and a peer.
struct MessageCounts {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

class ExchangeLog {
 public:
  explicit ExchangeLog(int ranks) : peers_(static_cast<std::size_t>(ranks)) {}

  // Numbers the messages of an operation that is entered. One thread at a time.
  void enter(ExchangeMessages& messages, Rank me);

  // Any thread.

  // Counts the messages to and from `peer` that this rank has entered.
  MessageCounts counts(Rank peer) const;
  // Message `number` of them: collective exchange, root: the peer. nullopt: not entered yet, or too long ago.
  std::optional<CallRecord> find(Direction direction, Rank peer, std::uint64_t number) const;
  // Whether this rank has entered it.
  bool entered(Direction direction, Rank peer, std::uint64_t number) const;

 private:
  // More than fit into a FIFO's slots by default: a rank that waits for one may ask what its peer sent instead.
  static constexpr std::size_t kRemembered = 64;
  struct Kept {
    DataType dtype;
    std::uint64_t count;
  };
  struct Side {
    std::uint64_t entered = 0;
    std::vector<Kept> last;  // of message m at m % kRemembered; empty before the first
  };
  const Side& side(Direction direction, Rank peer) const {
    return peers_[static_cast<std::size_t>(peer)][static_cast<std::size_t>(direction)];
  }

  mutable std::mutex mutex_;
  std::vector<std::array<Side, 2>> peers_;
};

// "send #3 to rank 1 float32 x 100".
std::string describe_message(Direction direction, const CallRecord& message);

}  // namespace wreath
