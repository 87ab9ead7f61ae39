// Sends one message over a wire and takes one, as plain code over their FIFOs.
//
// The wire reads the sent message from the rank's own memory, and may put the other one where it belongs. The two do
// the same as a lane of one send step and a lane of one receive step, so the peer may have such lanes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/executor/pair.hpp"
#include "src/executor/state.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

class WireMessages {
 public:
  // Begins to move the two messages, of which one may have no FIFO. The FIFOs carry messages by reference. Where the
  // data of `received` is null, the message has no place, and the caller reads it at data().
  void start(const OutgoingMessage& sent, const IncomingMessage& received);
  // Publishes the one message and looks for the other; never waits. Returns Done where both are dealt with: the wire
  // may still have to take the first, and the caller ends the second by take(). Returns Failed where another message is
  // here.
  Advance run();
  // Says whether a message is awaited, which take() has not ended yet.
  bool waits() const { return received_.fifo != nullptr; }
  // Says whether the wire has taken the sent message, so that its memory may be written.
  bool is_sent() const;
  // Returns the received message, after Done.
  const std::byte* data() const { return data_; }
  // Puts the received message into its place, if it has one and is not there, and gives its slot back.
  void take();

  // Returns the bytes of the sent message, once it is published.
  std::uint64_t sent_bytes() const { return publishes() && published_ ? sent_.bytes : 0; }
  // Returns whether the message that is here has the awaited signature, and so differs in its size.
  bool differs_in_size() const;

 private:
  bool publishes() const { return sent_.fifo != nullptr; }
  void post_place() const;
  void publish();

  OutgoingMessage sent_;
  IncomingMessage received_;
  const std::byte* data_ = nullptr;
  bool published_ = false;
};

}  // namespace wreath
