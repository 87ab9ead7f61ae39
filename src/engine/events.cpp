// The progress thread calls these functions, which act on control messages and on peers that go away.
#include <fmt/format.h>

#include <utility>

#include "src/engine/engine.hpp"

namespace wreath {

void Engine::handle_messages() {
  ControlHandlers& handlers = control_->handlers();
  links_->handle(handlers);
  handlers.add(MessageKind::Region, [this](Rank from, ControlMessage& message) {
    on_region(from, message.index, std::move(message.offer));
  });
  handlers.add(MessageKind::Word,
               [this](Rank from, ControlMessage& message) { on_word(from, std::move(message.offer)); });
  handlers.add(MessageKind::Failed, [this](Rank, ControlMessage& message) {
    fail(message.error.code, message.error.failed_rank, message.error.message);
  });
  handlers.add_lost([this](const Loss& loss) { on_lost(loss); });
  handlers.add_unable([this](const Error& error) { fail(error.code, rank(), error.message); });
}

void Engine::on_region(Rank from, std::uint32_t index, Offer offer) {
  const Status accepted = links_->on_region(from, index, std::move(offer));
  // A peer of this process that left took its memory along. This rank has read before what it needed there.
  const bool gone = !accepted && accepted.error().code == ErrorCode::Unavailable;
  const bool theirs = !accepted && accepted.error().code == ErrorCode::Mismatch;
  if (!accepted && !gone) fail(accepted.error().code, theirs ? from : rank(), accepted.error().message);
  // A step may wait for a message in that region.
  ring();
}

void Engine::on_word(Rank from, Offer word) {
  if (const Status kept = links_->on_word(from, std::move(word)); !kept) {
    fail(kept.error().code, from, fmt::format("{}: {}", member(from), kept.error().message));
  }
  ring();
}

// Answers a peer's own question. For a message, the question means this rank's counterpart of it.
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
  // The operation has its turn, but this rank has not begun it.
  if (waiting != 0 && question.number >= waiting) {
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

void Engine::on_lost(const Loss& loss) {
  if (leaving_ || control_->has_left(loss.rank)) return;
  // A process that ended is gone for all ranks. Any other loss of a connection concerns its two ends only.
  const bool ended = loss.how == Loss::How::Ended;
  const std::string whose = ended ? member(loss.rank) : member(rank()) + " to " + member(loss.rank);
  fail(ErrorCode::PeerLost, loss.rank, fmt::format("{}: {}", whose, loss.reason));
}

}  // namespace wreath
