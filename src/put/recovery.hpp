// A link whose channels were lost makes new connections of them. Both ends stop and reset their channels, name the new
// ones to each other by a word, connect, and say that they are ready: a put before that would find nobody.
//
// Either end may begin, and both may at once: the higher attempt counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/put/queue.hpp"
#include "src/put/receiver.hpp"
#include "src/put/sender.hpp"

namespace wreath {

class PutRecovery {
 public:
  // The link gives up `limit_ms` after it lost its channels.
  PutRecovery(PutPort& port, std::vector<PutQueue>& queues, PutSender& sender, PutReceiver& receiver,
              std::int64_t limit_ms)
      : port_(port), queues_(queues), sender_(sender), receiver_(receiver), limit_ms_(limit_ms) {}

  // Returns whether the channels work, as far as this end knows.
  bool connected() const { return state_ == State::Connected; }
  // Returns whether the peer waits for this end.
  bool peer_waits() const { return !connected() && theirs_.has_value(); }
  // Returns whether time alone brings the next step.
  bool waits_for_time() const { return state_ == State::Stopping; }

  // Takes the loss of a channel, which a new connection may mend.
  void on_lost(const Error& reason);
  // Takes the end of a put, which shows that its channel works.
  void on_ended() { works_ = works_ || connected(); }
  // Take words of the peer. Mismatch names a word that comes at the wrong time.
  Status on_new_channels(NewChannels word);
  Status on_ready(const ChannelsReady& word);
  // Does what can be done without waiting, and adds words for the peer. Returns PeerLost when it gives up.
  Status step(std::vector<PutWord>& words);

 private:
  enum class State : std::uint8_t {
    Connected,
    Stopping,  // until the adapter has let go of all memory, and a while has passed
    Waiting,   // for the peer's new channels
    Joining,   // until the peer is ready, too
  };
  void begin(std::uint32_t attempt);
  Error lost(const std::string& why) const;
  Status stop_and_reset(std::vector<PutWord>& words);
  Status join(std::vector<PutWord>& words);

  PutPort& port_;
  std::vector<PutQueue>& queues_;
  PutSender& sender_;
  PutReceiver& receiver_;
  const std::int64_t limit_ms_;
  State state_ = State::Connected;
  std::uint32_t attempt_ = 0;
  bool works_ = true;  // the channels of this attempt have worked
  bool peer_ready_ = false;
  std::optional<NewChannels> theirs_;  // of this attempt
  std::string reason_;                 // of the last loss
  std::int64_t since_ns_ = 0;          // of the first loss after which no channel has worked
  std::int64_t not_before_ns_ = 0;     // of the next attempt
  std::int64_t pause_ns_ = 0;
};

}  // namespace wreath
