// Agreement is one rank's part in the survivors' agreements of a communicator. It adds clocks and attempts to the
// consensus of the present call (consensus.hpp). It also keeps messages that come before this rank's own call. It has
// no I/O and no threads, and the caller gives it the time.
//
// A rank that does not give an awaited answer in time counts as unreachable. An answer of its progress thread has
// `answer_ns`. An answer of its caller has as long as that caller may need at worst. The clocks start anew with each
// view and phase. So a rank that learns something late has time for all answers to it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "src/membership/shrink_message.hpp"

namespace wreath {

class Agreement {
 public:
  struct Limits {
    // Ranks have so long to enter their calls, from this rank's call on.
    std::int64_t entering_ns = 0;
    std::int64_t answer_ns = 0;
    // Ranks have so long for an attempt, and to learn why it failed.
    std::int64_t joining_ns = 0;
  };
  struct Outgoing {
    Rank to;
    std::uint64_t number;
    ShrinkMessage message;
  };

  Agreement(Rank self, int ranks);

  // Begins this rank's call. It starts a new agreement, or enters the one that other ranks are in already.
  void begin(std::int64_t now_ns, const Limits& limits);
  // These tell the agreement what happens, also between calls. Messages of one rank come in the order in which it sent
  // them, and before its end.
  void hear(Rank from, std::uint64_t number, ShrinkMessage message);
  void lose(Rank peer, Fate fate);
  // Excludes `peer` from this call, whatever happens to that rank. The caller calls it after begin().
  void exclude(Rank peer);
  // Looks at the clocks. The caller calls it after begin().
  void look(std::int64_t now_ns);

  // Returns the view to attempt. There is one once its meeting point is known or this rank must make that point. Each
  // view comes once.
  std::optional<View> take_attempt();
  // Returns where the ranks of an attempted view meet. Null means that this rank makes the meeting point and calls
  // meet().
  const UniqueId* meeting_at(const View& view) const;
  void meet(const View& view, const UniqueId& id);
  // Says whether the last attempt cannot succeed any more, since the view has grown or there is an outcome.
  bool attempt_is_void() const { return attempted_ && (over() || *attempted_ != consensus_->view()); }
  void joined(const View& view);
  void refuse(const View& view, const Error& reason);

  // Returns the consensus of the present call. The caller calls it after begin().
  const Consensus& consensus() const { return *consensus_; }
  bool over() const { return consensus_->outcome() != Consensus::Outcome::Open; }

  // Returns the messages to send. The caller sends them at once, in this order.
  std::vector<Outgoing> take_outgoing();

 private:
  struct Early {
    Rank from;
    std::uint64_t number;
    ShrinkMessage message;
  };
  struct Meeting {
    View view;
    UniqueId id;
  };
  // The clocks start anew when the phase changes.
  struct Phase {
    View view;
    bool attempting = false;
    bool joining = false;
    bool operator==(const Phase&) const = default;
  };

  void act_on(Rank from, const ShrinkMessage& message);
  std::vector<Rank> awaited() const;

  Rank self_;
  // The number of the call, which is alike on all ranks.
  std::uint64_t number_ = 0;
  // The fates that the detector has reported so far.
  View fates_;
  std::deque<Early> early_;  // of later calls
  std::optional<Consensus> consensus_;
  // The meetings that this rank heard of, or made, in this call.
  std::vector<Meeting> meetings_;
  std::optional<View> attempted_;  // the last attempt
  Limits limits_;
  std::int64_t entered_ns_ = 0;
  Phase seen_;  // at the last look
  std::int64_t since_ns_ = 0;
  std::vector<Outgoing> outgoing_;
};

// Returns the ranks that live in `view`, in their order.
std::vector<Rank> living(const View& view);

}  // namespace wreath
