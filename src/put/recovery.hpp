// A link whose channels were lost makes new connections of them. Both ends stop and reset their channels, name the new
// ones to each other by a word, connect, and say that they are ready: a put before that would find nobody. Channels
// that cannot be stopped alone (PutLimits::shared) pause first, and each end says what must still come at the other.
//
// Either end may begin, and both may at once: the higher attempt counts.
//
// Where a link has several rails, the one that was lost is left out of the new connection, and messages go over the
// others. After a while it is connected again with them, and it carries messages again once a put has ended there. A
// rail that one end leaves out has no address in its word, and is left out at both.
#pragma once

#include <array>
#include <atomic>
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
  PutRecovery(Rank peer, PutPort& port, PutQueues& queues, PutSender& sender, PutReceiver& receiver,
              std::int64_t limit_ms)
      : peer_(peer), port_(port), queues_(queues), sender_(sender), receiver_(receiver), limit_ms_(limit_ms) {}

  // Returns whether the channels work, as far as this end knows.
  bool connected() const { return state_ == State::Connected; }
  // Returns whether channels were lost, and are to be connected again.
  bool mends() const { return !connected() && state_ != State::GivenUp; }
  // Returns whether the peer waits for this end.
  bool peer_waits() const { return mends() && (theirs_.has_value() || paused_.has_value()); }
  // Returns whether the channels settle, for which the adapter must be polled.
  bool settles() const { return state_ == State::Settling; }
  // Returns whether time alone brings the next step.
  bool waits_for_time() const { return state_ == State::Stopping || (settles() && paused_); }

  // Returns the rails that carry messages as far as is known, a bit each. Any thread may ask.
  std::uint32_t working_rails() const { return working_.load(std::memory_order_relaxed); }

  // Takes note that the peer has left. Channels that are lost stay so from now on.
  void on_peer_left() { peer_left_ = true; }
  // Takes the loss of a channel, which a new connection may mend.
  void on_lost(std::size_t rail, const Error& reason);
  // Takes the end of a put, which shows that its channel works.
  void on_ended(std::size_t rail);
  // Take words of the peer. Mismatch names a word that comes at the wrong time.
  Status on_new_channels(NewChannels word);
  Status on_ready(const ChannelsReady& word);
  Status on_paused(ChannelsPaused word);
  // Does what can be done without waiting, and adds words for the peer. Returns PeerLost when it gives up.
  Status step(std::vector<PutWord>& words);

 private:
  enum class State : std::uint8_t {
    Connected,
    Stopping,  // until the adapter has let go of all memory, and a while has passed
    Settling,  // until nothing comes of what the peer has put
    Waiting,   // for the peer's new channels
    Joining,   // until the peer is ready, too
    GivenUp,   // for good: the peer has left
  };
  struct Rail {
    bool left_out = false;
    bool proven = true;  // it has worked since it was last left out
    std::int64_t in_since_ns = 0;
    std::int64_t pause_ns = 0;
    std::int64_t back_ns = 0;  // it is left out until then
    std::string why;
  };
  void begin(std::uint32_t attempt);
  void give_up();
  Error lost(const std::string& why) const;
  bool waits_for_others() const;
  std::string awaited() const;
  Status expect(const char* what, std::uint32_t attempt, bool again);
  Status stop(std::vector<PutWord>& words);
  Status settle(std::vector<PutWord>& words);
  Status reset(std::size_t rail, ChannelAddresses& addresses);
  Status join(std::vector<PutWord>& words);
  Status connect(std::size_t rail);
  bool names(std::size_t rail) const;
  std::uint32_t proven_rails() const;
  void prove_where_none_is();
  void use_rails();
  void leave_out(std::size_t rail, const std::string& why);
  bool brings_rails_back();

  const Rank peer_;
  PutPort& port_;
  PutQueues& queues_;
  PutSender& sender_;
  PutReceiver& receiver_;
  const std::int64_t limit_ms_;
  State state_ = State::Connected;
  std::uint32_t attempt_ = 0;
  bool peer_left_ = false;
  bool works_ = true;  // the channels of this attempt have worked
  bool peer_ready_ = false;
  std::optional<ChannelsPaused> paused_;  // of this attempt, as the next one
  std::optional<NewChannels> theirs_;
  std::string reason_;              // of the last loss
  std::int64_t since_ns_ = 0;       // of the first loss after which no channel has worked
  std::int64_t not_before_ns_ = 0;  // of the next attempt
  std::int64_t pause_ns_ = 0;
  std::int64_t held_up_since_ns_ = 0;  // of this attempt: an endpoint is not closed; 0: nothing holds it up
  std::array<Rail, kMostRails> rails_;
  std::uint32_t named_ = 0;     // the rails with new channels at this end, a bit each
  std::uint32_t joined_ = ~0U;  // the rails that are connected
  std::atomic<std::uint32_t> working_ = ~0U;
};

}  // namespace wreath
