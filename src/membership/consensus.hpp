// Consensus lets the survivors agree on the ranks that are left. It is what one member knows, says and concludes. It
// has no I/O and no clocks.
//
// Every member holds a view: the fate of each rank. A view only grows. It grows by reports of the member's own
// detector, and by statements of members whose fate is Alive. The member reports every change to those members. Its
// view is stable once all of them have reported exactly this view. Then the member attempts the communicator of the
// ranks that live in the view, and reports when it has joined. A member decides a view when all that live in it have
// reported that they joined it. A decision is final. The member reports it to all, and each member that hears it adopts
// it.
//
// A member behind a broken network may have decided a view before it was cut off. So a member with a stable view that
// holds unreachable ranks first checks the view that it joined before. Where such a rank lives in that view, and all
// living members joined it, the view may be decided elsewhere. Then this member decides it, too.
//
// Only the larger side of a partition goes on. The living must be more than the unreachable, or as many and with the
// lowest rank among both.
//
// The test tests/unit/membership/consensus_test.cpp walks all runs of four ranks.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "wreath/result.hpp"
#include "wreath/types.hpp"

namespace wreath {

// The fates are in an order in which a fate only gets worse.
enum class Fate : std::uint8_t {
  Alive,
  // The rank is silent, or the way to it is broken. It may live and act.
  Unreachable,
  // The rank ended, left or gave up. It says nothing any more.
  Gone,
};
using View = std::vector<Fate>;  // by rank

// A Statement is a message of one member to another.
struct Statement {
  enum class Kind : std::uint8_t {
    // The member holds `view`, and joined `joined` last; an empty `joined` means no view.
    Holds,
    Decided,  // `view` is decided
    // There will be no communicator, for the reason in `code` and `reason`.
    Refused,
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

  // These tell the member what happens to it. take_outgoing() then returns its statements. Once there is an outcome,
  // they have no effect.
  void start();
  // Takes a statement of `from`. Statements of one member come in the order in which it sent them.
  void hear(Rank from, const Statement& statement);
  void lose(Rank peer, Fate fate);
  // Notes that the attempt at `view` succeeded. It has no effect where the view has grown meanwhile.
  void joined(const View& view);
  // Notes that the attempt at `view` failed. It has no effect where the view has grown meanwhile.
  void refuse(const View& view, const Error& reason);

  // Returns the statements to send. The caller sends them at once, in this order, each only to its receiver.
  std::vector<std::pair<Rank, Statement>> take_outgoing() { return std::exchange(outgoing_, {}); }

  const View& view() const { return view_; }
  // Says whether view() is stable and this member should join its communicator.
  bool attempting() const { return attempting_; }
  // Says whether `peer` still owes a statement that view() needs.
  bool awaits(Rank peer) const;
  // Says whether this member joined view() and waits until the others have joined.
  bool waits_for_joins() const { return outcome_ == Outcome::Open && joined_ == view_; }

  Outcome outcome() const { return outcome_; }
  const View& decided() const { return final_.view; }                               // only for Outcome::Decided
  Error error() const { return {final_.code, final_.reason, final_.failed_rank}; }  // only for Outcome::Refused

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
  // The last statement of each living member.
  std::vector<Statement> heard_;
  // The members that said this member does not live.
  std::vector<bool> left_out_by_;
  bool attempting_ = false;
  Outcome outcome_ = Outcome::Open;
  Statement final_;
  std::vector<std::pair<Rank, Statement>> outgoing_;
};

// Returns the ranks that do not live in `view`, for example "ranks 1, 4", or "no rank".
std::string failed_ranks(const View& view);

}  // namespace wreath
