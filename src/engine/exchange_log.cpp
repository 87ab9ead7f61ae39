// The log counts messages by peer and direction.
#include "src/engine/exchange_log.hpp"

namespace wreath {

void ExchangeLog::enter(ExchangeMessages& messages, Rank me) {
  const std::lock_guard lock(mutex_);
  for (const Direction direction : {Direction::Send, Direction::Receive}) {
    for (ExchangeMessage& message : direction == Direction::Send ? messages.sends : messages.receives) {
      if (message.peer == me) continue;
      Side& side = peers_[static_cast<std::size_t>(message.peer)][static_cast<std::size_t>(direction)];
      message.number = ++side.entered;
      if (side.last.empty()) side.last.resize(kRemembered);
      side.last[message.number % kRemembered] = {message.dtype, message.count};
    }
  }
}

MessageCounts ExchangeLog::counts(Rank peer) const {
  const std::lock_guard lock(mutex_);
  return {side(Direction::Send, peer).entered, side(Direction::Receive, peer).entered};
}

std::optional<CallRecord> ExchangeLog::find(Direction direction, Rank peer, std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const Side& of = side(direction, peer);
  if (number == 0 || number > of.entered || of.entered - number >= kRemembered) return std::nullopt;
  const Kept& kept = of.last[number % kRemembered];
  CallRecord message;
  message.number = number;
  message.collective = Collective::Exchange;
  message.dtype = kept.dtype;
  message.root = peer;
  message.count = kept.count;
  return message;
}

bool ExchangeLog::entered(Direction direction, Rank peer, std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return number <= side(direction, peer).entered;
}

std::string describe_message(Direction direction, const CallRecord& message) {
  return describe(
      MessageRecord{0, direction == Direction::Send, message.root, message.dtype, message.count, message.number});
}

}  // namespace wreath
