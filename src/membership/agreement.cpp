// The agreement of the survivors has clocks and attempts.
#include "src/membership/agreement.hpp"

#include <algorithm>

#include "src/base/planted_fault.hpp"

namespace wreath {

Agreement::Agreement(Rank self, int ranks) : self_(self), fates_(static_cast<std::size_t>(ranks), Fate::Alive) {}

void Agreement::begin(std::int64_t now_ns, const Limits& limits) {
  ++number_;
  for (const Early& early : early_) number_ = std::max(number_, early.number);
  meetings_.clear();
  attempted_.reset();
  limits_ = limits;
  entered_ns_ = since_ns_ = now_ns;
  consensus_.emplace(self_, static_cast<int>(fates_.size()));
  consensus_->start();
  // Acts on early messages in the order of their arrival, then on losses. A rank that decided and left has both said so
  // and ended.
  for (const Early& early : std::exchange(early_, {})) {
    if (early.number == number_ && !planted_fault(14)) act_on(early.from, early.message);
  }
  for (std::size_t rank = 0; rank < fates_.size(); ++rank) consensus_->lose(static_cast<Rank>(rank), fates_[rank]);
  seen_ = {consensus_->view(), consensus_->attempting(), consensus_->waits_for_joins()};
}

void Agreement::hear(Rank from, std::uint64_t number, ShrinkMessage message) {
  if (number == number_ && consensus_) return act_on(from, message);
  if (number <= number_) return;
  std::erase_if(early_, [&](const Early& early) { return early.from == from && early.number < number; });
  const auto kept = std::count_if(early_.begin(), early_.end(), [&](const Early& early) { return early.from == from; });
  // For each view, a rank says that it holds the view, where to meet, and that it joined. A view grows at most twice
  // per rank.
  const std::size_t most = 3 * (2 * fates_.size() + 1) + 1;
  if (static_cast<std::size_t>(kept) < most) early_.push_back({from, number, std::move(message)});
}

void Agreement::act_on(Rank from, const ShrinkMessage& message) {
  if (!message.meeting) return consensus_->hear(from, message.statement);
  const View& view = message.statement.view;
  const std::vector<Rank> members = living(view);
  const bool rightful = !members.empty() && members.front() == from;
  if (rightful && meeting_at(view) == nullptr) meetings_.push_back({view, *message.meeting});
}

void Agreement::lose(Rank peer, Fate fate) {
  Fate& known = fates_[static_cast<std::size_t>(peer)];
  known = std::max(known, fate);
  if (consensus_) consensus_->lose(peer, fate);
}

void Agreement::exclude(Rank peer) { consensus_->lose(peer, Fate::Gone); }

void Agreement::look(std::int64_t now_ns) {
  if (over()) return;
  Phase phase{consensus_->view(), consensus_->attempting(), consensus_->waits_for_joins()};
  if (phase != seen_) {
    seen_ = std::move(phase);
    since_ns_ = now_ns;
  }
  const std::int64_t answered_ns = since_ns_ + limits_.answer_ns;
  const bool on_callers = seen_.attempting || seen_.joining;
  const std::int64_t until_ns =
      on_callers ? answered_ns + limits_.joining_ns : std::max(answered_ns, entered_ns_ + limits_.entering_ns);
  if (now_ns <= until_ns) return;
  for (const Rank rank : awaited()) consensus_->lose(rank, Fate::Unreachable);
}

// Returns the ranks whose answers are missing. The caller asks before it loses any of them: a loss lets the view grow,
// and then all answers are missing.
std::vector<Rank> Agreement::awaited() const {
  std::vector<Rank> ranks;
  const View& view = consensus_->view();
  if (consensus_->attempting()) {
    // This rank has not said where to meet.
    if (attempted_ != view) ranks.push_back(living(view).front());
    return ranks;
  }
  for (const Rank rank : living(view)) {
    if (consensus_->awaits(rank)) ranks.push_back(rank);
  }
  return ranks;
}

std::optional<View> Agreement::take_attempt() {
  const View& view = consensus_->view();
  if (!consensus_->attempting() || attempted_ == view) return std::nullopt;
  if (living(view).front() != self_ && meeting_at(view) == nullptr) return std::nullopt;
  attempted_ = view;
  return attempted_;
}

const UniqueId* Agreement::meeting_at(const View& view) const {
  const auto found =
      std::find_if(meetings_.begin(), meetings_.end(), [&](const Meeting& meeting) { return meeting.view == view; });
  return found == meetings_.end() ? nullptr : &found->id;
}

void Agreement::meet(const View& view, const UniqueId& id) {
  ShrinkMessage message;
  message.meeting = id;
  message.statement.view = view;
  for (const Rank member : living(view)) {
    if (member != self_) outgoing_.push_back({member, number_, message});
  }
}

void Agreement::joined(const View& view) { consensus_->joined(view); }

void Agreement::refuse(const View& view, const Error& reason) { consensus_->refuse(view, reason); }

std::vector<Agreement::Outgoing> Agreement::take_outgoing() {
  std::vector<Outgoing> outgoing = std::exchange(outgoing_, {});
  if (!consensus_) return outgoing;
  for (auto& [to, statement] : consensus_->take_outgoing()) {
    outgoing.push_back({to, number_, {std::nullopt, std::move(statement)}});
  }
  return outgoing;
}

std::vector<Rank> living(const View& view) {
  std::vector<Rank> ranks;
  for (std::size_t rank = 0; rank < view.size(); ++rank) {
    if (view[rank] == Fate::Alive) ranks.push_back(static_cast<Rank>(rank));
  }
  return ranks;
}

}  // namespace wreath
