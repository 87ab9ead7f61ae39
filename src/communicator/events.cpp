// What the progress thread does when a control message arrives or a peer goes away.
#include <fmt/format.h>

#include "src/base/log.hpp"
#include "src/communicator/engine.hpp"
#include "src/communicator/shrink.hpp"
#include "src/communicator/split.hpp"

namespace wreath {

void Engine::on_event(std::uint64_t token, std::uint32_t) {
  const LogRank log_rank(rank());
  control_->on_readable(static_cast<Rank>(token));
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
      if (!accepted && !gone) fail(accepted.error().code, from, accepted.error().message);
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
  const std::uint64_t waiting = first_waiting_for_stream(own);
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

void Engine::on_unable(const Error& error) {
  fail(error.code, rank(), fmt::format("{}: {}", member(rank()), error.message));
}

}  // namespace wreath
