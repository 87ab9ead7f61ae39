// One rank's part in the survivors' agreements of a communicator: the consensus of the present call (consensus.hpp)
// with its clocks and attempts, and what came before this rank's own call. No I/O, no threads; the time is told.
//
// A rank that does not say in time what is waited for counts as unreachable. It has `answer_ns` for what its progress
// thread says by itself; for what its caller does it has as long as that may take at worst. Clocks start anew
// with each view and phase, so that what a rank learns late from another one leaves time for all answers to it.
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
    std::int64_t entering_ns = 0;  // from this rank's call on, for ranks to enter theirs
    std::int64_t answer_ns = 0;
    std::int64_t joining_ns = 0;  // for an attempt, and to learn why it failed
  };
  struct Outgoing {
    Rank to;
    std::uint64_t number;
    ShrinkMessage message;
  };

  Agreement(Rank self, int ranks);

  // This rank calls: a new agreement, or the one in which others are already.
  void begin(std::int64_t now_ns, const Limits& limits);
  // These tell it what happens, also between calls. Messages of one rank come in the order it sent them, and before its
  // end.
  void hear(Rank from, std::uint64_t number, ShrinkMessage message);
  void lose(Rank peer, Fate fate);
  // After begin(): this call is made without `peer`, whatever becomes of it.
  void exclude(Rank peer);
  // After begin(): looks at the clocks.
  void look(std::int64_t now_ns);

  // The view to attempt, once there is one with a meeting point, or this rank is to make it; each view once.
  std::optional<View> take_attempt();
  // Where the ranks of a view that take_attempt() gave meet; null: this rank makes that point, and says so by meet().
  const UniqueId* meeting_at(const View& view) const;
  void meet(const View& view, const UniqueId& id);
  // Nothing comes of the attempt taken last: the view has grown, or there is an outcome.
  bool attempt_is_void() const { return attempted_ && (over() || *attempted_ != consensus_->view()); }
  void joined(const View& view);
  void refuse(const View& view, const Error& reason);

  // After begin(): the consensus of the present call.
  const Consensus& consensus() const { return *consensus_; }
  bool over() const { return consensus_->outcome() != Consensus::Outcome::Open; }

  // The caller sends them at once, in this order.
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
  // The clocks start anew when it changes.
  struct Phase {
    View view;
    bool attempting = false;
    bool joining = false;
    bool operator==(const Phase&) const = default;
  };

  void act_on(Rank from, const ShrinkMessage& message);
  std::vector<Rank> awaited() const;

  Rank self_;
  std::uint64_t number_ = 0;  // of the call, counted alike on all ranks
  View fates_;                // what the detector said so far
  std::deque<Early> early_;   // of calls to come
  std::optional<Consensus> consensus_;
  std::vector<Meeting> meetings_;  // heard of, or made, in this call
  std::optional<View> attempted_;  // the last attempt taken
  Limits limits_;
  std::int64_t entered_ns_ = 0;
  Phase seen_;  // at the last look
  std::int64_t since_ns_ = 0;
  std::vector<Outgoing> outgoing_;
};

// The ranks that live in `view`, in their order.
std::vector<Rank> living(const View& view);

}  // namespace wreath
