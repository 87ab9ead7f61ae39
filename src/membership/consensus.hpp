// Agreement of the survivors on who is left: what one member knows, says and concludes. No I/O, no clocks.
//
// Every member holds a view: the fate of each rank. Views only grow, by what its own detector says and by what it hears
// from members it does not hold for failed; every change is told to those. Once all of them told it exactly its view,
// the view is stable: it attempts the communicator of the ranks that live in it, and tells when it has joined. A member
// decides a view when all that live in it told that they joined it. A decision is final, told to all, and adopted by
// who hears of it.
//
// A member behind a broken network may have decided a view before it was cut off. So a stable view that holds
// unreachable ranks first looks whether all its living members joined an earlier view in which such a rank lives:
// then that one may be decided elsewhere, and is decided here too. Of the sides of a partition only the larger goes on:
// the living must be more than the unreachable, or as many and with the lowest rank among both.
//
// tests/unit/membership/consensus_test.cpp walks all runs of four ranks.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "wreath/result.hpp"
#include "wreath/types.hpp"

namespace wreath {

// In order: a fate only gets worse.
enum class Fate : std::uint8_t {
  Alive,
  Unreachable,  // silent, or the way to it is broken: it may live and act
  Gone,         // it ended, left or gave up: it says nothing any more
};
using View = std::vector<Fate>;  // by rank

// One member tells it to another.
struct Statement {
  enum class Kind : std::uint8_t {
    Holds,    // it holds `view`, and joined `joined` last (empty: none)
    Decided,  // `view` is decided
    Refused,  // there will be no communicator: `code` and `reason`
  };
  Kind kind = Kind::Holds;
  View view;
  View joined;
  ErrorCode code = ErrorCode::System;
  Rank failed_rank = -1;
  std::string reason;
  bool operator==(const Statement&) const = default;
};

class Consensus {
 public:
  enum class Outcome : std::uint8_t { Open, Decided, Refused };

  Consensus(Rank self, int ranks);

  // These tell the member what happens to it; take_outgoing() holds what it then says. Nothing has an effect once there
  // is an outcome.
  void start();
  void hear(Rank from, const Statement& statement);  // in the order it was sent
  void lose(Rank peer, Fate fate);
  void joined(const View& view);                       // the attempt at `view` succeeded
  void refuse(const View& view, const Error& reason);  // ... failed. Both: nothing when the view has grown meanwhile

  // The caller sends them at once, in this order, each only to its receiver.
  std::vector<std::pair<Rank, Statement>> take_outgoing() { return std::exchange(outgoing_, {}); }

  const View& view() const { return view_; }
  // Whether view() is stable and this member should join its communicator.
  bool attempting() const { return attempting_; }
  // Whether `peer` still has to say something before anything can come of view().
  bool awaits(Rank peer) const;
  // Whether this member joined view() and waits for others to do.
  bool waits_for_joins() const { return outcome_ == Outcome::Open && joined_ == view_; }

  Outcome outcome() const { return outcome_; }
  const View& decided() const { return final_.view; }                               // Outcome::Decided
  Error error() const { return {final_.code, final_.reason, final_.failed_rank}; }  // Outcome::Refused

  bool operator==(const Consensus&) const = default;

 private:
  const Statement& heard(std::size_t rank) const { return heard_[rank]; }
  bool lives(std::size_t rank) const { return view_[rank] == Fate::Alive; }
  bool merge(const View& theirs);
  void worsen(std::size_t rank, Fate fate);
  void say();
  void tell(const Statement& statement, Fate worst);
  void settle();
  bool stable() const;
  bool larger_side() const;
  bool all_joined(const View& view) const;
  bool may_be_decided_elsewhere() const;
  void decide(const View& view);
  void give_up(Error reason);

  Rank self_;
  View view_;
  View joined_;
  std::vector<Statement> heard_;   // the last of each member that lives
  std::vector<bool> left_out_by_;  // who told that this member does not live
  bool attempting_ = false;
  Outcome outcome_ = Outcome::Open;
  Statement final_;
  std::vector<std::pair<Rank, Statement>> outgoing_;
};

// "ranks 1, 4" of those that do not live in `view`; "no rank".
std::string failed_ranks(const View& view);

}  // namespace wreath
