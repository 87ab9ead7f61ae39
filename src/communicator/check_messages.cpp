// The messages of an exchange are checked once, where they enter.
#include "src/communicator/check_messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace wreath {
namespace {

Error invalid(ErrorCode code, std::string text) { return {code, std::move(text), -1}; }

std::uintptr_t address(const ExchangeMessage& message) { return reinterpret_cast<std::uintptr_t>(message.data); }

// Checks that each message to the own rank has a counterpart of its size.
Status check_own(const ExchangeMessages& messages, Rank me) {
  const auto next_own = [me](const std::vector<ExchangeMessage>& all, std::size_t from) {
    while (from < all.size() && all[from].peer != me) ++from;
    return from;
  };
  std::size_t send = next_own(messages.sends, 0);
  std::size_t receive = next_own(messages.receives, 0);
  for (; send < messages.sends.size() && receive < messages.receives.size();
       send = next_own(messages.sends, send + 1), receive = next_own(messages.receives, receive + 1)) {
    const ExchangeMessage& sent = messages.sends[send];
    const ExchangeMessage& received = messages.receives[receive];
    if (sent.count == received.count && sent.dtype == received.dtype) continue;
    return invalid(ErrorCode::InvalidArgument,
                   fmt::format("rank {} sends itself {} x {} and receives {} x {}", me, name(sent.dtype), sent.count,
                               name(received.dtype), received.count));
  }
  const bool sends = send < messages.sends.size();
  if (!sends && receive >= messages.receives.size()) return {};
  return invalid(ErrorCode::InvalidUsage,
                 fmt::format("rank {} {} itself without a matching {}: call both inside one Group", me,
                             sends ? "sends to" : "receives from", sends ? "recv" : "send"));
}

struct MessageExtent {
  std::uintptr_t first = 0;
  std::uintptr_t end = 0;
  Direction direction = Direction::Send;
  Rank peer = 0;

  bool received() const { return direction == Direction::Receive; }
  std::string text() const {
    return fmt::format("{} rank {} ({} bytes at {:#x})", received() ? "recv from" : "send to", peer, end - first,
                       first);
  }
};

// Checks in the order of addresses. A received message must end before the next begins, and begin after all others end.
Status check_overlap(const ExchangeMessages& messages) {
  thread_local std::vector<MessageExtent> extents;  // keeps its memory between calls
  extents.clear();
  for (const Direction direction : {Direction::Send, Direction::Receive}) {
    for (const ExchangeMessage& message : messages.of(direction)) {
      if (message.count == 0) continue;
      extents.push_back({address(message), address(message) + message.bytes(), direction, message.peer});
    }
  }
  std::sort(extents.begin(), extents.end(),
            [](const MessageExtent& a, const MessageExtent& b) { return a.first < b.first; });
  // The message that ends last so far.
  MessageExtent last;
  // The received message that ends last so far.
  MessageExtent last_received;
  for (const MessageExtent& extent : extents) {
    const MessageExtent& before = extent.received() ? last : last_received;
    if (extent.first < before.end) {
      return invalid(ErrorCode::InvalidArgument,
                     fmt::format("{} and {} use the same memory", before.text(), extent.text()));
    }
    if (extent.end > last.end) last = extent;
    if (extent.received() && extent.end > last_received.end) last_received = extent;
  }
  return {};
}

// Checks that one device has all memory that is not the host's.
Status check_one_device(const ExchangeMessages& messages) {
  CallBuffer first{};
  for (const Direction direction : {Direction::Send, Direction::Receive}) {
    for (const ExchangeMessage& message : messages.of(direction)) {
      if (message.count == 0 || device_of(message.data) == nullptr) continue;
      const CallBuffer buffer{direction == Direction::Send ? "input" : "output", message.data};
      if (first.data == nullptr) first = buffer;
      WREATH_TRY(check_call_memory(first, buffer, nullptr));
    }
  }
  return {};
}

// Says whether the messages are plainly right: one each way, between ranks, in memory of the host that does not meet.
bool are_plain(const ExchangeMessages& messages, Rank me) {
  if (messages.sends.size() != 1 || messages.receives.size() != 1) return false;
  const ExchangeMessage& sent = messages.sends.front();
  const ExchangeMessage& received = messages.receives.front();
  const std::uintptr_t sent_end = address(sent) + sent.bytes();
  const std::uintptr_t received_end = address(received) + received.bytes();
  const bool apart = sent_end <= address(received) || received_end <= address(sent);
  return apart && sent.peer != me && received.peer != me && are_of_host(messages);
}

}  // namespace

Status check_messages(const ExchangeMessages& messages, Rank me) {
  if (are_plain(messages, me)) return {};
  WREATH_TRY(check_one_device(messages));
  WREATH_TRY(check_own(messages, me));
  return check_overlap(messages);
}

bool none_has_a_device(const ExchangeMessages& messages) {
  const auto of_host = [](const ExchangeMessage& message) { return device_of(message.data) == nullptr; };
  return std::ranges::all_of(messages.sends, of_host) && std::ranges::all_of(messages.receives, of_host);
}

}  // namespace wreath
