// What the progress thread does when a control message arrives or a peer goes away.
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "src/base/log.hpp"
#include "src/communicator/engine.hpp"
#include "src/communicator/shrink.hpp"
#include "src/communicator/split.hpp"
#include "src/fifo/segment_memory.hpp"

namespace wreath {

void Engine::on_event(std::uint64_t token, std::uint32_t) {
  const LogRank log_rank(rank());
  const auto all = static_cast<std::uint64_t>(ranks());
  if (token < all) return control_->on_readable(static_cast<Rank>(token));
  const auto peer = static_cast<Rank>(token - all);
  if (control_->on_process_end(peer) && !watch_->has_left(peer)) tell_of_end(peer);
}

bool Engine::of_one_host(Rank a, Rank b) const {
  const auto host = [&](Rank rank) { return membership_.members[static_cast<std::size_t>(rank)].endpoint.host; };
  return host(a) == host(b);
}

// A child that was made without fork() holds this process's connections: the next ranks of this host learn of its end
// by the process itself, and tell the others.
void Engine::start_control() {
  progress_->add(*this);
  control_->start(*progress_, *this);
  const Fd process = Fd::of_process(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!process) return;  // a kernel before 5.3
  const auto process_of = [&](Rank rank) {
    return membership_.members[static_cast<std::size_t>(rank)].endpoint.process;
  };
  int watchers = 0;
  for (int i = 1; i < ranks() && watchers < kProcessWatchers; ++i) {
    const Rank peer = (rank() + i) % ranks();
    if (process_of(peer) == process_of(rank()) || !of_one_host(peer, rank())) continue;
    ControlMessage message;
    message.kind = MessageKind::Process;
    if (add_descriptor(message.offer, process.get(), "this process")) control_->send(peer, std::move(message));
    ++watchers;
  }
}

// Others who watch it do so, too: the first who is heard counts.
void Engine::tell_of_end(Rank gone) {
  for (Rank peer = 0; peer < ranks(); ++peer) {
    if (peer == rank() || peer == gone) continue;
    ControlMessage message;
    message.kind = MessageKind::Ended;
    message.index = static_cast<std::uint32_t>(gone);
    control_->send(peer, std::move(message));
  }
}

void Engine::on_ended(Rank from, std::uint32_t index) {
  if (index >= static_cast<std::uint32_t>(ranks())) return;
  const auto gone = static_cast<Rank>(index);
  if (gone != rank() && of_one_host(from, gone)) control_->on_process_end(gone);
}

void Engine::on_message(Rank from, ControlMessage message) {
  watch_->compare(from, message);
  switch (message.kind) {
    case MessageKind::Offer: links_->on_offer(from, message.index, std::move(message.offer)); return;
    case MessageKind::Verdict: links_->on_verdict(from, message.index, std::move(message.text)); return;
    case MessageKind::Region: {
      const Status accepted = links_->on_region(from, message.index, std::move(message.offer));
      // A peer of this process that left took its memory along; what this rank still needs of it was read before.
      const bool gone = !accepted && accepted.error().code == ErrorCode::Unavailable;
      const bool theirs = !accepted && accepted.error().code == ErrorCode::Mismatch;
      if (!accepted && !gone) fail(accepted.error().code, theirs ? from : rank(), accepted.error().message);
      ring();  // a step may wait for a message there
      return;
    }
    case MessageKind::Query:
      if (message.index >= kSubjects) return;
      if (!message.entered) watch_->on_query(from, static_cast<Subject>(message.index));
      answer({from, static_cast<Subject>(message.index), message.number}, message.entered);
      return;
    case MessageKind::State: watch_->on_state(from, message); return;
    case MessageKind::Failed: fail(message.error.code, message.error.failed_rank, message.error.message); return;
    case MessageKind::Goodbye:
      shrink_->on_lost(from, Fate::Gone);
      watch_->on_goodbye(from, message.done);
      return;
    case MessageKind::Departed: shrink_->on_lost(from, Fate::Gone); return;
    case MessageKind::Shrink: shrink_->on_message(from, std::move(message)); return;
    case MessageKind::Split: split_->on_message(from, message); return;
    case MessageKind::Process:
      if (message.offer.descriptors.size() != 1) return;
      control_->watch_process(from, Fd::of_process(std::exchange(message.offer.descriptors.front(), -1)));
      return;
    case MessageKind::Ended: on_ended(from, message.index); return;
  }
}

// `question` is the peer's own; of a message it means this rank's counterpart.
void Engine::answer(const Question& question, bool earlier) {
  const Question own{question.peer, counterpart(question.subject), question.number};
  ControlMessage state;
  state.kind = MessageKind::State;
  state.index = static_cast<std::uint32_t>(question.subject);
  state.number = question.number;
  state.last = recorder_.last();
  state.text = watch_->waits_in();
  const auto record = recorded(own);
  state.done = progressed(own.peer);
  state.entered = record.has_value() || question.number <= state.done.done(question.subject);
  for (std::uint64_t number = question.number; earlier && number > 0; --number) {
    const auto call = recorder_.find(number);
    if (call) state.earlier.push_back(*call);
    if (question.number - number + 1 == kEarlierCalls) break;
  }
  if (record) state.record = *record;
  const std::uint64_t waiting = queue_.first_waiting(own);
  if (waiting != 0 && question.number >= waiting) {  // it has its turn, but this rank is not in it yet
    state.entered = false;
    state.record = {};
    if (question.subject == Subject::Call) state.last.number = waiting - 1;
  }
  control_->send(question.peer, std::move(state));
}

std::optional<CallRecord> Engine::recorded(const Question& question) const {
  if (question.subject == Subject::Call) return recorder_.find(question.number);
  const Direction direction = question.subject == Subject::Send ? Direction::Send : Direction::Receive;
  return exchange_log_.find(direction, question.peer, question.number);
}

void Engine::on_lost(Rank from, const std::string& reason, bool closed) {
  shrink_->on_lost(from, closed ? Fate::Gone : Fate::Unreachable);
  if (leaving_ || watch_->has_left(from)) return;
  // A process that ended is gone for all; what else befalls a connection is a matter of its two ends.
  const std::string whose = reason == kConnectionClosed ? member(from) : member(rank()) + " to " + member(from);
  fail(ErrorCode::PeerLost, from, fmt::format("{}: {}", whose, reason));
}

void Engine::on_unable(const Error& error) { fail(error.code, rank(), error.message); }

}  // namespace wreath
