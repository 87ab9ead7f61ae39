// ExchangeLog numbers the messages between this rank and its peers, and remembers the last ones.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/engine/exchange.hpp"
#include "wreath/recording.hpp"

namespace wreath {

class ExchangeLog {
 public:
  explicit ExchangeLog(int ranks) : peers_(static_cast<std::size_t>(ranks)) {}

  // Numbers the messages of an operation that is entered. One thread at a time may call it.
  void enter(ExchangeMessages& messages, Rank me) {
    enter(Direction::Send, messages.sends, me);
    enter(Direction::Receive, messages.receives, me);
  }
  // Does so for the messages of one direction.
  void enter(Direction direction, std::vector<ExchangeMessage>& messages, Rank me) {
    for (ExchangeMessage& message : messages) {
      if (message.peer != me) enter(message, side(direction, message.peer));
    }
  }

  // Any thread may call the functions below.

  // Counts the messages to or from `peer` that this rank has entered.
  std::uint64_t count(Direction direction, Rank peer) const {
    return side(direction, peer).entered.load(std::memory_order_acquire);
  }
  // Returns a record of message `number`: its collective is Exchange and its root is the peer. Returns nullopt where it
  // is not entered yet, or too long ago.
  std::optional<CallRecord> find(Direction direction, Rank peer, std::uint64_t number) const;
  // Says whether this rank has entered the message.
  bool entered(Direction direction, Rank peer, std::uint64_t number) const { return number <= count(direction, peer); }

 private:
  // The log remembers more messages than fit into a FIFO's slots by default. So a rank that waits for a message may ask
  // what its peer sent instead.
  static constexpr std::size_t kRemembered = 64;
  struct Kept {
    std::atomic<DataType> dtype;
    std::atomic<std::uint64_t> count;
  };
  struct Side {
    std::atomic<std::uint64_t> entered{0};
    // Message m is at m % kRemembered. The pointer is null before the first message, and then never changes.
    std::unique_ptr<std::array<Kept, kRemembered>> last;
  };
  static void enter(ExchangeMessage& message, Side& side) {
    message.number = side.entered.load(std::memory_order_relaxed) + 1;
    if (side.last == nullptr) side.last = std::make_unique<std::array<Kept, kRemembered>>();
    Kept& kept = (*side.last)[message.number % kRemembered];
    // A reader that sees these words sees that the message before counts.
    kept.dtype.store(message.dtype, std::memory_order_release);
    kept.count.store(message.count, std::memory_order_release);
    side.entered.store(message.number, std::memory_order_release);
  }
  const Side& side(Direction direction, Rank peer) const {
    return peers_[static_cast<std::size_t>(peer)][static_cast<std::size_t>(direction)];
  }
  Side& side(Direction direction, Rank peer) {
    return peers_[static_cast<std::size_t>(peer)][static_cast<std::size_t>(direction)];
  }

  std::vector<std::array<Side, 2>> peers_;
};

// Describes a message, for example as "send #3 to rank 1 float32 x 100".
std::string describe_message(Direction direction, const CallRecord& message);

}  // namespace wreath
