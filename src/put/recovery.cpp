// A port that is down refuses each attempt at once, so attempts become rarer.
#include "src/put/recovery.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"

namespace wreath {
namespace {

constexpr std::int64_t kFirstPauseNs = kNsPerMs;
constexpr std::int64_t kLongestPauseNs = 100 * kNsPerMs;
// A rail is left out so long. Whoever brings it back holds up the others for a moment.
constexpr std::int64_t kFirstRailPauseNs = 1000 * kNsPerMs;
constexpr std::int64_t kLongestRailPauseNs = 60'000 * kNsPerMs;
// A rail that is lost sooner after it came back is left out for longer.
constexpr std::int64_t kSteadyNs = 10'000 * kNsPerMs;

}  // namespace

void PutRecovery::on_lost(std::size_t rail, const Error& reason) {
  if (state_ != State::Connected && state_ != State::Joining) return;
  port_.listen();
  reason_ = reason.message;
  leave_out(rail, reason_);
  log_info("{}: {}: connecting again", port_.name(rail), reason_);
  begin(attempt_ + 1);
}

void PutRecovery::on_ended(std::size_t rail) {
  if (!connected()) return;
  works_ = true;
  if (rails_[rail].proven) return;
  rails_[rail].proven = true;
  rails_[rail].in_since_ns = now_ns();
  use_rails();
}

// Where no other rail is left, all are tried again.
void PutRecovery::leave_out(std::size_t rail, const std::string& why) {
  if (queues_.count_rails() == 1) return;
  const std::int64_t now = now_ns();
  Rail& lost = rails_[rail];
  const bool soon = lost.pause_ns > 0 && (!lost.proven || now - lost.in_since_ns < kSteadyNs);
  // It has not been waited for where the pause is not over.
  if (now >= lost.back_ns) lost.pause_ns = soon ? std::min(2 * lost.pause_ns, kLongestRailPauseNs) : kFirstRailPauseNs;
  lost.back_ns = now + lost.pause_ns;
  lost.left_out = true;
  lost.proven = false;
  lost.why = why;
  const auto own = std::span(rails_).first(queues_.count_rails());
  if (!std::ranges::all_of(own, [](const Rail& each) { return each.left_out; })) return;
  for (Rail& each : own) each.left_out = false;
}

// Returns whether a rail that was left out is to be tried again now.
bool PutRecovery::brings_rails_back() {
  bool found = false;
  for (std::size_t rail = 0; rail < queues_.count_rails(); ++rail) {
    Rail& each = rails_[rail];
    if (!each.left_out) continue;
    const std::int64_t now = now_ns();
    if (now < each.back_ns) continue;
    each.left_out = !port_.adapter(rail).usable();
    if (each.left_out) each.pause_ns = std::min(2 * each.pause_ns, kLongestRailPauseNs);
    each.back_ns = each.left_out ? now + each.pause_ns : now;
    found = found || !each.left_out;
  }
  return found;
}

std::uint32_t PutRecovery::proven_rails() const {
  std::uint32_t proven = 0;
  for (std::size_t rail = 0; rail < queues_.count_rails(); ++rail) proven |= rails_[rail].proven ? 1U << rail : 0;
  return joined_ & proven;
}

// After all were lost, all that are connected carry messages at once.
void PutRecovery::prove_where_none_is() {
  if (proven_rails() != 0) return;
  for (std::size_t rail = 0; rail < queues_.count_rails(); ++rail) {
    if ((joined_ & 1U << rail) != 0) rails_[rail].proven = true;
  }
}

// Gives messages to the rails that are connected and have worked.
void PutRecovery::use_rails() {
  const std::uint32_t used = proven_rails();
  queues_.use(used);
  const std::uint32_t before = working_.exchange(used, std::memory_order_relaxed);
  for (std::size_t rail = 0; rail < queues_.count_rails(); ++rail) {
    const std::uint32_t bit = 1U << rail;
    if ((before & bit) == (used & bit)) continue;
    if ((used & bit) != 0) {
      rails_[rail].why.clear();
      log_warning("{} to rank {}: the adapter is back, and carries messages again", port_.name(rail), peer_);
    } else {
      log_warning("{} to rank {}: the adapter is lost: {}; its messages go over {}", port_.name(rail), peer_,
                  rails_[rail].why.empty() ? "the peer has left it out" : rails_[rail].why, port_.describe(used));
    }
  }
}

void PutRecovery::begin(std::uint32_t attempt) {
  const std::int64_t now = now_ns();
  if (std::exchange(works_, false)) {
    since_ns_ = now;
    pause_ns_ = 0;
  } else {
    pause_ns_ = std::clamp(2 * pause_ns_, kFirstPauseNs, kLongestPauseNs);
  }
  not_before_ns_ = now + pause_ns_;
  attempt_ = attempt;
  state_ = State::Stopping;
  peer_ready_ = false;
  held_up_since_ns_ = 0;
  paused_.reset();
  theirs_.reset();
}

// Takes note of a word about an attempt, the next one or this one, of which there is no such word yet.
Status PutRecovery::expect(const char* what, std::uint32_t attempt, bool again) {
  const auto ahead = static_cast<std::int32_t>(attempt - attempt_);
  if (ahead != 1 && (ahead != 0 || connected() || again)) {
    return Error{ErrorCode::Mismatch,
                 fmt::format("word: {} of attempt {}, at attempt {} here", what, attempt, attempt_)};
  }
  if (ahead == 0) return {};
  if (reason_.empty()) reason_ = "the peer lost its channels";
  begin(attempt);
  return {};
}

Status PutRecovery::on_paused(ChannelsPaused word) {
  WREATH_TRY(expect("channels that pause", word.attempt, paused_.has_value()));
  paused_ = std::move(word);
  return {};
}

Status PutRecovery::on_new_channels(NewChannels word) {
  WREATH_TRY(expect("new channels", word.attempt, theirs_.has_value()));
  theirs_ = std::move(word);
  return {};
}

Status PutRecovery::on_ready(const ChannelsReady& word) {
  const auto ahead = static_cast<std::int32_t>(word.attempt - attempt_);
  // The peer had not yet heard that this end begins again.
  if (ahead < 0) return {};
  if (ahead > 0 || !theirs_ || peer_ready_) {
    return Error{ErrorCode::Mismatch,
                 fmt::format("word: ready for attempt {}, at attempt {} here", word.attempt, attempt_)};
  }
  peer_ready_ = true;
  return {};
}

Error PutRecovery::lost(const std::string& why) const {
  std::string text = why;
  for (std::size_t rail = 0; rail < queues_.count_rails(); ++rail) {
    if (!rails_[rail].why.empty()) text += fmt::format("; {}: {}", port_.name(rail), rails_[rail].why);
  }
  if (!port_.trouble().empty()) text += "; " + port_.trouble();
  return {ErrorCode::PeerLost, std::move(text)};
}

// Returns whether the peer has done its part, and an endpoint was not closed for a good part of the time. It takes a
// moment where no other link uses it, too.
bool PutRecovery::waits_for_others() const {
  return settles() && held_up_since_ns_ != 0 && now_ns() - held_up_since_ns_ > limit_ms_ * kNsPerMs / 4;
}

// Says what holds up channels that settle.
std::string PutRecovery::awaited() const {
  if (!settles()) return {};
  if (!paused_) return ": the peer does not answer";
  if (!receiver_.has(paused_->lanes)) return ": a message has ended at the peer and has not come";
  return waits_for_others() ? ": an endpoint is not closed, which links to other ranks use" : "";
}

// The peer needs no message any more, and its words are not to come.
void PutRecovery::give_up() {
  queues_.give_up();
  for (PutQueue& queue : queues_.all()) queue.clear();
  state_ = State::GivenUp;
  log_info("{} to rank {}: {}: the peer has left", port_.describe(), peer_, reason_);
}

Status PutRecovery::step(std::vector<PutWord>& words) {
  if (state_ == State::GivenUp) return {};
  if (connected()) {
    if (queues_.count_rails() == 1 || peer_left_ || !brings_rails_back()) return {};
    reason_ = "an adapter may be back";
    begin(attempt_ + 1);
  }
  if (!peer_left_ && now_ns() - since_ns_ > limit_ms_ * kNsPerMs) {
    port_.listen();
    Error error = lost(fmt::format("{}, and no new connection within {} ms{}", reason_, limit_ms_, awaited()));
    if (waits_for_others()) error.code = ErrorCode::System;
    return error;
  }
  if (state_ == State::Stopping) WREATH_TRY(stop(words));
  if (peer_left_ && state_ != State::Stopping) {
    give_up();
    return {};
  }
  if (settles()) WREATH_TRY(settle(words));
  if (state_ == State::Waiting && theirs_) WREATH_TRY(join(words));
  if (state_ == State::Joining && peer_ready_) {
    state_ = State::Connected;
    paused_.reset();
    theirs_.reset();
    prove_where_none_is();
    use_rails();
    sender_.probe(joined_);
    log_info("{}: connected again, attempt {}", port_.describe(joined_), attempt_);
  }
  return {};
}

Status PutRecovery::stop(std::vector<PutWord>& words) {
  bool stopped = true;
  for (PutQueue& queue : queues_.all()) stopped = queue.channel().pause() && stopped;
  WREATH_TRY(port_.poll());
  if (!stopped || now_ns() < not_before_ns_) return {};
  state_ = State::Settling;
  if (!port_.limits().shared || peer_left_) return {};
  ChannelsPaused word{attempt_, {}, sender_.ended()};
  for (const PutQueue& queue : queues_.all()) word.tells.push_back(queue.channel().tells());
  words.emplace_back(std::move(word));
  return {};
}

// Messages that came over the old channels count, so all are taken before this end says where it is.
Status PutRecovery::settle(std::vector<PutWord>& words) {
  if (port_.limits().shared) {
    WREATH_TRY(port_.poll());
    if (!paused_ || !receiver_.has(paused_->lanes)) return {};
    bool settled = true;
    for (std::size_t i = 0; i < queues_.all().size(); ++i) {
      settled = queues_.all()[i].channel().settle(paused_->tells[i]) && settled;
    }
    if (!settled) {
      if (held_up_since_ns_ == 0) held_up_since_ns_ = now_ns();
      return {};
    }
  }
  NewChannels word{attempt_, {}, {}};
  named_ = 0;
  for (std::size_t rail = 0; rail < queues_.count_rails(); ++rail) {
    const bool left_out = rails_[rail].left_out;
    const Status done = reset(rail, word.channels);
    if (!done && queues_.count_rails() == 1) return done;
    if (!done) leave_out(rail, done.error().message);
    named_ |= done && !left_out ? 1U << rail : 0;
  }
  word.lanes = receiver_.begin_again();
  words.emplace_back(std::move(word));
  state_ = State::Waiting;
  return {};
}

// Adds the addresses of a rail's new channels, which are empty where it is left out, or cannot be made new.
Status PutRecovery::reset(std::size_t rail, ChannelAddresses& addresses) {
  Status done;
  const std::size_t first = addresses.size();
  for (PutQueue& queue : queues_.all()) {
    if (queue.rail() != rail) continue;
    queue.clear();
    addresses.emplace_back();
    if (rails_[rail].left_out || !done) continue;
    done = queue.channel().reset();
    if (done) done = port_.watch(rail);
    if (done) addresses.back() = queue.channel().address();
  }
  if (done) return {};
  for (std::size_t i = first; i < addresses.size(); ++i) addresses[i].clear();
  return done;
}

// Returns whether both ends have named new channels of a rail. Where there is but one, it must be named.
bool PutRecovery::names(std::size_t rail) const {
  if (queues_.count_rails() == 1) return true;
  if ((named_ & 1U << rail) == 0) return false;
  for (std::size_t i = 0; i < queues_.all().size(); ++i) {
    if (queues_.all()[i].rail() == rail && theirs_->channels[i].empty()) return false;
  }
  return true;
}

Status PutRecovery::connect(std::size_t rail) {
  for (std::size_t i = 0; i < queues_.all().size(); ++i) {
    PutQueue& queue = queues_.all()[i];
    if (queue.rail() == rail) WREATH_TRY(queue.channel().connect(theirs_->channels[i]));
  }
  return {};
}

Status PutRecovery::join(std::vector<PutWord>& words) {
  std::uint32_t joined = 0;
  for (std::size_t rail = 0; rail < queues_.count_rails(); ++rail) {
    if (!names(rail)) continue;
    const Status connected = connect(rail);
    // An adapter that comes back may have lost its address: with others left that is no reason to fail.
    const bool alone = queues_.count_rails() == 1;
    if (!connected && connected.error().code == ErrorCode::Mismatch && alone) return connected;
    if (!connected) {
      reason_ = connected.error().message;
      leave_out(rail, reason_);
      begin(attempt_ + 1);
      return {};
    }
    joined |= 1U << rail;
  }
  // Each end left out what the other one has: both try all again.
  if (joined == 0) {
    reason_ = "the two ends have no adapters in common that work";
    for (Rail& rail : rails_) {
      rail.left_out = false;
      if (rail.why.empty()) rail.why = "the peer has left it out";
    }
    begin(attempt_ + 1);
    return {};
  }
  for (std::size_t rail = 0; rail < queues_.count_rails(); ++rail) {
    if ((joined & ~joined_ & 1U << rail) != 0) rails_[rail].proven = false;
  }
  joined_ = joined;
  WREATH_TRY(sender_.resume(theirs_->lanes));
  words.emplace_back(ChannelsReady{attempt_});
  state_ = State::Joining;
  return {};
}

}  // namespace wreath
