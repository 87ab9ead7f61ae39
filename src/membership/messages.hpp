// Ranks of a communicator send control messages beside the data of its calls.
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
  // Links use these kinds.

  // `offer` says how the sender is reached by candidate transport `index`.
  Offer,
  // `text` says why candidate `index` did not work. It is empty where the candidate worked.
  Verdict,
  // `body` names the transports by which the sender could reach the receiver (link_messages.hpp).
  Candidates,
  // `body` describes the sender's links (link_messages.hpp).
  Linked,
  // `offer` is memory that slots will name as region `index`.
  Region,
  // `offer` is a word of the sender's end of a link for the other end (Wire::on_word).
  Word,

  // The clocks of calls use these kinds.

  // A query asks how far the receiver is with call `number`, or with its side of message `number`. `index` is the
  // Subject. With `entered` it asks for the calls that led to that one.
  Query,
  // A state answers a query. It has `entered`, the `record` of that call or message, the `last` call, and `earlier`
  // calls where the query asks for them. `text` names the call that the sender waits in.
  State,
  // The sender's communicator failed with `error`.
  Failed,
  // The sender leaves. `done` says how far it came, and `last` is its last call.
  Goodbye,

  // Split and shrink use these kinds.

  // The sender aborted and takes part in nothing any more.
  Departed,
  // `body` belongs to agreement `number` of the survivors (shrink_message.hpp).
  Shrink,
  // `body` belongs to split `number` (split.hpp).
  Split,

  // The members themselves use these kinds.

  // The descriptor tells some ranks of the sender's host when the sender's process ends.
  Process,
  // The process of rank `index`, on the sender's host, has ended.
  Ended,
};

inline constexpr std::size_t kMessageKinds = static_cast<std::size_t>(MessageKind::Ended) + 1;

// Messages of these kinds say in `done` how far the sender came.
inline constexpr std::array kProgressKinds = {MessageKind::Query, MessageKind::State, MessageKind::Goodbye,
                                              MessageKind::Shrink, MessageKind::Split};

inline constexpr std::size_t kEarlierCalls = 64;  // in one message

// A ControlMessage has one field for each use. Unused fields stay at their defaults.
struct ControlMessage {
  MessageKind kind = MessageKind::Query;
  std::uint32_t index = 0;
  std::uint64_t number = 0;
  bool entered = false;
  CallRecord record;
  CallRecord last;
  // Messages of the kProgressKinds say here how far the sender came.
  Progressed done;
  std::vector<CallRecord> earlier;
  Error error{ErrorCode::System, {}, -1};
  std::string text;
  std::string body;
  Offer offer;
};

// Returns the kind in words, for errors.
std::string_view name(MessageKind kind);

// Returns the bytes of a message without its descriptors.
std::vector<std::byte> encode_control(const ControlMessage& message);
// Reads a message. Any bytes are safe.
Result<ControlMessage> decode_control(std::span<const std::byte> bytes);

}  // namespace wreath
