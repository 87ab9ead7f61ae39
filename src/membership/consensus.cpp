// The survivors' agreement follows these rules.
#include "src/membership/consensus.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "src/base/planted_fault.hpp"

namespace wreath {

Consensus::Consensus(Rank self, int ranks)
    : self_(self),
      view_(static_cast<std::size_t>(ranks), Fate::Alive),
      heard_(static_cast<std::size_t>(ranks)),
      left_out_by_(static_cast<std::size_t>(ranks)) {}

void Consensus::start() {
  say();
  settle();
}

void Consensus::hear(Rank from, const Statement& statement) {
  const auto sender = static_cast<std::size_t>(from);
  const bool sized = statement.view.size() == view_.size();
  if (outcome_ != Outcome::Open || view_[sender] == Fate::Gone) return;
  if (statement.kind == Statement::Kind::Decided && sized) return decide(statement.view);
  // No other statement of a failed member may count once this member has reported that failure.
  if (!lives(sender)) return;
  if (statement.kind == Statement::Kind::Refused) {
    return give_up({statement.code, statement.reason, statement.failed_rank});
  }
  if (statement.kind != Statement::Kind::Holds || !sized) return;
  if (statement.view[static_cast<std::size_t>(self_)] != Fate::Alive) {
    left_out_by_[sender] = true;
    return lose(from, Fate::Unreachable);
  }
  heard_[sender] = statement;
  if (merge(statement.view)) say();
  settle();
}

void Consensus::lose(Rank peer, Fate fate) {
  const auto rank = static_cast<std::size_t>(peer);
  // The peer may have decided without this member, and the peer's end does not undo that.
  if (left_out_by_[rank]) fate = Fate::Unreachable;
  if (outcome_ != Outcome::Open || peer == self_ || view_[rank] >= fate) return;
  worsen(rank, fate);
  say();
  settle();
}

void Consensus::joined(const View& view) {
  if (outcome_ != Outcome::Open || !attempting_ || view != view_) return;
  joined_ = view;
  say();
  settle();
}

void Consensus::refuse(const View& view, const Error& reason) {
  if (outcome_ != Outcome::Open || !attempting_ || view != view_) return;
  give_up(reason);
}

bool Consensus::awaits(Rank peer) const {
  const auto rank = static_cast<std::size_t>(peer);
  if (outcome_ != Outcome::Open || peer == self_ || !lives(rank)) return false;
  return heard_[rank].view != view_ || (joined_ == view_ && heard_[rank].joined != view_);
}

bool Consensus::merge(const View& theirs) {
  bool grown = false;
  for (std::size_t rank = 0; rank < view_.size(); ++rank) {
    if (theirs[rank] <= view_[rank]) continue;
    worsen(rank, theirs[rank]);
    grown = true;
  }
  return grown;
}

void Consensus::worsen(std::size_t rank, Fate fate) {
  view_[rank] = fate;
  heard_[rank] = {};
}

void Consensus::say() {
  attempting_ = false;
  // Members that the view leaves out get the statement, too, and learn it so.
  tell({Statement::Kind::Holds, view_, joined_, {}, -1, {}}, Fate::Unreachable);
}

// Sends a statement to the other members whose fate is `worst` or better.
void Consensus::tell(const Statement& statement, Fate worst) {
  for (std::size_t rank = 0; rank < view_.size(); ++rank) {
    if (static_cast<Rank>(rank) != self_ && view_[rank] <= worst) {
      outgoing_.emplace_back(static_cast<Rank>(rank), statement);
    }
  }
}

void Consensus::settle() {
  if (outcome_ != Outcome::Open || !stable()) return;
  if (!larger_side()) {
    const auto first = std::find(view_.begin(), view_.end(), Fate::Unreachable);
    return give_up({ErrorCode::PeerLost,
                    fmt::format("{} cannot be reached, and theirs is the larger side", failed_ranks(view_)),
                    static_cast<int>(first - view_.begin())});
  }
  if (may_be_decided_elsewhere()) return decide(joined_);
  if (all_joined(view_)) return decide(view_);
  attempting_ = joined_ != view_;
}

bool Consensus::stable() const {
  for (std::size_t rank = 0; rank < view_.size(); ++rank) {
    if (static_cast<Rank>(rank) != self_ && lives(rank) && heard(rank).view != view_) return planted_fault(15);
  }
  return true;
}

bool Consensus::larger_side() const {
  const auto living = std::count(view_.begin(), view_.end(), Fate::Alive);
  const auto unreachable = std::count(view_.begin(), view_.end(), Fate::Unreachable);
  if (living != unreachable) return living > unreachable;
  return *std::find_if(view_.begin(), view_.end(), [](Fate fate) { return fate != Fate::Gone; }) == Fate::Alive;
}

// Says whether all living members joined `view`. The caller has checked that the present view is stable.
bool Consensus::all_joined(const View& view) const {
  if (joined_ != view) return false;
  for (std::size_t rank = 0; rank < view_.size(); ++rank) {
    if (static_cast<Rank>(rank) != self_ && lives(rank) && heard(rank).joined != view) return false;
  }
  return true;
}

bool Consensus::may_be_decided_elsewhere() const {
  if (joined_.empty() || joined_ == view_) return false;
  bool cut_off = false;
  for (std::size_t rank = 0; rank < view_.size(); ++rank) {
    cut_off = cut_off || (view_[rank] == Fate::Unreachable && joined_[rank] == Fate::Alive);
  }
  return cut_off && all_joined(joined_);
}

void Consensus::decide(const View& view) {
  attempting_ = false;
  outcome_ = Outcome::Decided;
  final_ = {Statement::Kind::Decided, view, {}, {}, -1, {}};
  tell(final_, Fate::Unreachable);
  if (view[static_cast<std::size_t>(self_)] == Fate::Alive) return;
  outcome_ = Outcome::Refused;
  final_.code = ErrorCode::PeerLost;
  final_.failed_rank = self_;
  final_.reason = "the other survivors went on without this rank, which did not answer them in time";
}

// Gives up. Only members of the same side get the refusal, since another side may have decided.
void Consensus::give_up(Error reason) {
  attempting_ = false;
  outcome_ = Outcome::Refused;
  final_ = {Statement::Kind::Refused, {}, {}, reason.code, reason.failed_rank, std::move(reason.message)};
  tell(final_, Fate::Alive);
}

std::string failed_ranks(const View& view) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < view.size(); ++rank) {
    if (view[rank] != Fate::Alive) ranks.push_back(rank);
  }
  if (ranks.empty()) return "no rank";
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace wreath
