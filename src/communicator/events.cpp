// What the progress thread does when a control message arrives or a peer goes away.
#include <fmt/format.h>

#include "src/base/log.hpp"
#include "src/communicator/engine.hpp"

namespace wreath {

void Engine::on_event(std::uint64_t token, std::uint32_t) {
  const LogRank log_rank(rank());
  control_->on_readable(static_cast<Rank>(token));
}

void Engine::on_message(Rank from, ControlMessage message) {
  switch (message.kind) {
    case MessageKind::Offer: links_->on_offer(from, message.index, std::move(message.offer)); return;
    case MessageKind::Verdict: links_->on_verdict(from, message.index, std::move(message.text)); return;
    case MessageKind::Region: {
      const Status accepted = links_->on_region(from, message.index, std::move(message.offer));
      if (!accepted) fail(accepted.error().code, from, accepted.error().message);
      return;
    }
    case MessageKind::Query: answer(from, message.number); return;
    case MessageKind::State: watch_->on_state(from, message); return;
    case MessageKind::Failed: fail(message.error.code, message.error.failed_rank, message.error.message); return;
    case MessageKind::Goodbye: watch_->on_goodbye(from, message.number); return;
  }
}

void Engine::answer(Rank to, std::uint64_t number) {
  ControlMessage state;
  state.kind = MessageKind::State;
  state.number = number;
  const auto record = recorder_.find(number);
  state.entered = record.has_value();
  if (record) state.record = *record;
  state.last = recorder_.last();
  const std::uint64_t waiting = first_waiting_for_stream();
  if (waiting != 0 && number >= waiting) {  // it has its turn, but this rank is not in it yet
    state.entered = false;
    state.last.number = waiting - 1;
  }
  control_->send(to, std::move(state));
}

void Engine::on_lost(Rank from, const std::string& reason) {
  if (leaving_ || watch_->has_left(from)) return;
  fail(ErrorCode::PeerLost, from, fmt::format("{}: {}", member(from), reason));
}

}  // namespace wreath
