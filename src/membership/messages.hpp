// Control messages: the ranks of a communicator send them beside the data of its calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/membership/question.hpp"
#include "wreath/recording.hpp"
#include "wreath/transport.hpp"

namespace wreath {

enum class MessageKind : std::uint8_t {
  // Links:
  Offer,       // `offer` says how the sender is reached by candidate transport `index`
  Verdict,     // `text` says why candidate `index` did not work; it is empty where it did
  Candidates,  // `body` names the transports by which the sender could reach the receiver (link_messages.hpp)
  Linked,      // `body` says what the sender's links are like (link_messages.hpp)
  Region,      // `offer` is memory that slots will name as region `index`
  // The clocks of calls:
  Query,    // it asks where the receiver is with call `number`, or with its side of message `number`; `index` is the
            // Subject. With `entered` it asks for the calls that led to that one
  State,    // it answers a query: `entered`, `record` of that call or message, `last` call, `earlier` ones where they
            // were asked for; `text` names the call that the sender waits in
  Failed,   // the sender's communicator failed with `error`
  Goodbye,  // the sender leaves, having `done` so much; `last` is its last call
  // Communicators out of communicators:
  Departed,  // the sender aborted: it takes part in nothing any more
  Shrink,    // `body` belongs to agreement `number` of the survivors (shrink_message.hpp)
  Split,     // `body` belongs to split `number` (split.hpp)
  // The members' own:
  Process,  // a descriptor that tells when the sender's process ends, for some ranks of its host
  Ended,    // the process of rank `index`, on the sender's host, has ended
};

inline constexpr std::size_t kMessageKinds = static_cast<std::size_t>(MessageKind::Ended) + 1;

// Messages of these kinds say how far the sender came, in `done`.
inline constexpr std::array kProgressKinds = {MessageKind::Query, MessageKind::State, MessageKind::Goodbye,
                                              MessageKind::Shrink, MessageKind::Split};

inline constexpr std::size_t kEarlierCalls = 64;  // in one message

// Unused fields stay at their defaults.
struct ControlMessage {
  MessageKind kind = MessageKind::Query;
  std::uint32_t index = 0;
  std::uint64_t number = 0;
  bool entered = false;
  CallRecord record;
  CallRecord last;
  Progressed done;  // of the kProgressKinds: how far the sender came
  std::vector<CallRecord> earlier;
  Error error{ErrorCode::System, {}, -1};
  std::string text;
  std::string body;
  Offer offer;
};

// The kind in words, for errors.
std::string_view name(MessageKind kind);

// Bytes of a message without its descriptors, and back. Decoding is safe on any bytes.
std::vector<std::byte> encode_control(const ControlMessage& message);
Result<ControlMessage> decode_control(std::span<const std::byte> bytes);

}  // namespace wreath
