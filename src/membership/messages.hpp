// What the ranks of a communicator tell each other beside the data of its calls, and the bytes of that.
#pragma once

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
  Offer,       // how to reach the sender by candidate transport `index`
  Verdict,     // whether that worked: text is empty, or the reason why not
  Candidates,  // `body`: the transports by which the sender could reach the receiver (links.cpp)
  Linked,      // `body`: what the sender's links are like (links.cpp)
  Region,      // memory that slots will name as region `index`
  Query,       // where are you with call `number`, or with your counterpart of message `number`? `index`: the Subject;
               // `entered`: what calls led to that one?
  State,  // answer: `entered`, `record` of that call or message, `last` call, `earlier` ones where they were asked for,
          // `text`: the call that it waits in
  Failed,    // the sender's communicator failed with `error`
  Goodbye,   // the sender leaves, having `done` so much; its `last` call
  Departed,  // the sender aborted: it takes part in nothing any more
  Shrink,    // of the survivors' agreement `number`: `body` (shrink_message.hpp)
  Split,     // of split `number`: `body` (split.hpp)
  Process,   // the sender's process, as a descriptor that tells its end: to some ranks of its host
  Ended,     // the process of rank `index`, of the sender's host, has ended
};

inline constexpr std::size_t kMessageKinds = static_cast<std::size_t>(MessageKind::Ended) + 1;

inline constexpr std::size_t kEarlierCalls = 64;  // in one message

// Unused fields stay at their defaults.
struct ControlMessage {
  MessageKind kind = MessageKind::Query;
  std::uint32_t index = 0;
  std::uint64_t number = 0;
  bool entered = false;
  CallRecord record;
  CallRecord last;
  Progressed done;  // of Query, State, Goodbye, Shrink and Split: how far the sender came
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
