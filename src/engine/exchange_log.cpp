// The log counts messages by peer and direction.
#include "src/engine/exchange_log.hpp"

namespace wreath {

std::optional<CallRecord> ExchangeLog::find(Direction direction, Rank peer, std::uint64_t number) const {
  const Side& of = side(direction, peer);
  if (number == 0 || !entered(direction, peer, number)) return std::nullopt;
  const Kept& kept = (*of.last)[number % kRemembered];
  CallRecord message;
  message.number = number;
  message.collective = Collective::Exchange;
  message.dtype = kept.dtype.load(std::memory_order_acquire);
  message.root = peer;
  message.count = kept.count.load(std::memory_order_acquire);
  // The next message may be written over this one before it counts.
  const bool written_over = of.entered.load(std::memory_order_relaxed) + 1 - number >= kRemembered;
  return written_over ? std::nullopt : std::optional(message);
}

std::string describe_message(Direction direction, const CallRecord& message) {
  return describe(
      MessageRecord{0, direction == Direction::Send, message.root, message.dtype, message.count, message.number});
}

}  // namespace wreath
