// Late, stall and mismatch; the control connections keep the clock of death.
#include "src/communicator/watch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/log.hpp"
#include "src/communicator/engine.hpp"

namespace wreath {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kLookNs = kMs;
constexpr std::int64_t kFirstAskNs = 100 * kMs;
constexpr std::int64_t kAskAgainNs = 500 * kMs;
constexpr std::int64_t kFreshNs = 2'000 * kMs;      // an answer is news for so long
constexpr std::int64_t kSuspicionNs = 1'000 * kMs;  // how long a peer may take to explain itself

std::string last_call(const CallRecord& last) {
  if (last.number == 0) return "it has made no call yet";
  return fmt::format("its last call is {} ({})", describe(last), name(last.state));
}

}  // namespace

Watch::Watch(Engine& engine, int rank, int ranks, const Timeouts& timeouts)
    : engine_(engine), rank_(rank), timeouts_(timeouts), peers_(static_cast<std::size_t>(ranks)) {}

void Watch::look(Operation& operation, std::int64_t now_ns) {
  if (!operation.ready.load(std::memory_order_acquire)) return;  // its clocks start when its stream comes to it
  if (operation.entered_ns == 0) operation.entered_ns = operation.moved_ns = now_ns;
  if (operation.moved) {
    operation.moved = false;
    operation.moved_ns = now_ns;
    asked_ns_ = 0;
  }
  if (now_ns - looked_ns_ < kLookNs) return;
  looked_ns_ = now_ns;
  if (suspicion_ && now_ns - suspicion_->since_ns > kSuspicionNs) {
    engine_.fail(suspicion_->error.code, suspicion_->peer, suspicion_->error.message);
    return;
  }
  const std::int64_t ask_ns = std::min(kFirstAskNs, timeouts_.stall_ms * kMs / 4);
  if (now_ns - operation.moved_ns < ask_ns && late_ != operation.number) return;
  if (now_ns - asked_ns_ > std::min(kAskAgainNs, timeouts_.stall_ms * kMs / 4)) ask(operation, now_ns);
  if (look_for_leavers(operation) || look_for_late(operation, now_ns)) return;
  look_for_stall(operation, now_ns);
}

void Watch::suspect(const Operation& operation, Rank from, Error error) {
  if (suspicion_) return;
  const std::int64_t now = now_ns();
  suspicion_ = Suspicion{from, now, std::move(error)};
  ask(operation, now);
}

void Watch::ask(const Operation& operation, std::int64_t now_ns) {
  asked_ns_ = now_ns;
  {
    const std::lock_guard lock(mutex_);
    for (Peer& peer : peers_) {
      if (peer.asked != operation.number) {
        peer.entered = false;
        peer.asked_ns = now_ns;
      }
      peer.asked = operation.number;
    }
  }
  ControlMessage query;
  query.kind = MessageKind::Query;
  query.number = operation.number;
  engine_.control_->broadcast(query);
}

bool Watch::look_for_leavers(const Operation& operation) {
  Rank leaver = -1;
  std::uint64_t after = 0;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
      if (!peers_[rank].left_after || *peers_[rank].left_after >= operation.number) continue;
      leaver = static_cast<Rank>(rank);
      after = *peers_[rank].left_after;
    }
  }
  if (leaver < 0) return false;
  engine_.fail(ErrorCode::PeerLost, leaver,
               fmt::format("{} destroyed its communicator after call #{}", engine_.member(leaver), after));
  return true;
}

// Whether somebody is known not to have entered: then this is no stall.
bool Watch::look_for_late(Operation& operation, std::int64_t now_ns) {
  Rank late = -1;
  CallRecord last;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t rank = 0; rank < peers_.size() && late < 0; ++rank) {
      const Peer& peer = peers_[rank];
      const bool answered = peer.asked == operation.number && now_ns - peer.answered_ns <= kFreshNs;
      if (static_cast<Rank>(rank) == rank_ || peer.entered || !answered) continue;
      late = static_cast<Rank>(rank);
      last = peer.last;
    }
  }
  late_ = late < 0 ? 0 : operation.number;
  if (late < 0) return false;
  operation.moved_ns = now_ns;
  const std::int64_t waited_ms = (now_ns - operation.entered_ns) / kMs;
  if (waited_ms >= timeouts_.arrival_ms) {
    engine_.fail(ErrorCode::Timeout, late,
                 fmt::format("{} has not entered the call within {} ms; {}", engine_.member(late), timeouts_.arrival_ms,
                             last_call(last)));
  } else if (waited_ms >= timeouts_.late_warning_ms && warned_ != operation.number) {
    warned_ = operation.number;
    const LogRank log_rank(rank_);  // this may be the caller's thread
    log_warning("{}: waiting for {} for {} ms; {}", engine_.call_text(), engine_.member(late), waited_ms,
                last_call(last));
  }
  return true;
}

void Watch::look_for_stall(const Operation& operation, std::int64_t now_ns) {
  const std::int64_t blocked_ms = (now_ns - operation.moved_ns) / kMs;
  if (blocked_ms < timeouts_.stall_ms) return;
  Rank silent = -1;
  {
    const std::lock_guard lock(mutex_);
    const std::int64_t fresh_ns = std::min(kFreshNs, timeouts_.stall_ms * kMs);
    for (std::size_t rank = 0; rank < peers_.size() && silent < 0; ++rank) {
      const Peer& peer = peers_[rank];
      const bool quiet = now_ns - std::max(peer.answered_ns, peer.asked_ns) > fresh_ns / 2;
      if (static_cast<Rank>(rank) != rank_ && !peer.left_after && quiet) silent = static_cast<Rank>(rank);
    }
  }
  if (silent >= 0) {
    engine_.fail(ErrorCode::Timeout, silent,
                 fmt::format("nothing moved for {} ms and {} does not answer: its process may be stopped", blocked_ms,
                             engine_.member(silent)));
    return;
  }
  const Rank waiting = engine_.waiting_for(operation).value_or(rank_);
  engine_.fail(ErrorCode::Timeout, waiting,
               fmt::format("nothing moved for {} ms although all ranks entered; waiting for {}", blocked_ms,
                           engine_.member(waiting)));
}

void Watch::on_state(Rank from, const ControlMessage& message) {
  std::uint64_t asked = 0;
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = peers_[static_cast<std::size_t>(from)];
    asked = peer.asked;
    if (message.number == asked) {
      peer.answered_ns = now_ns();
      peer.entered = message.entered || message.last.number >= asked;
      peer.last = message.last;
    }
  }
  if (message.number != asked || !message.entered) return;
  const auto own = engine_.recorder_.find(asked);
  if (!own || same_call(*own, message.record)) return;
  engine_.fail(ErrorCode::Mismatch, from,
               fmt::format("{} called {}, {} called {}", engine_.member(rank_), describe(*own), engine_.member(from),
                           describe(message.record)));
}

void Watch::on_goodbye(Rank from, std::uint64_t last_number) {
  const std::lock_guard lock(mutex_);
  peers_[static_cast<std::size_t>(from)].left_after = last_number;
}

bool Watch::has_left(Rank peer) const {
  const std::lock_guard lock(mutex_);
  return peers_[static_cast<std::size_t>(peer)].left_after.has_value();
}

}  // namespace wreath
