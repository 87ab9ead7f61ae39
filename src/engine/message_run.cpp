// One send and one receive become messages of wires here.
#include "src/engine/message_run.hpp"

#include <algorithm>

#include "src/engine/engine.hpp"
#include "src/engine/exchange_lanes.hpp"
#include "src/executor/handwritten/handwritten.hpp"

namespace wreath {
namespace {

// Says whether there is no message, or one that a wire carries as a whole.
bool fits(const Engine& engine, const std::vector<ExchangeMessage>& messages) {
  if (messages.empty()) return true;
  const ExchangeMessage& only = messages.front();
  const std::uint64_t most = std::min<std::uint64_t>(kPairMessageBytes, engine.shape().slot_bytes);
  const bool over_wire = only.peer != engine.rank() && engine.links().wire(only.peer) != nullptr;
  return messages.size() == 1 && over_wire && only.count > 0 && only.bytes() <= most;
}

}  // namespace

bool MessageRun::serves(const Engine& engine, const ExchangeMessages& messages) {
  const bool by_steps = engine.trace() != nullptr || engine.options().overrides.executor == kHandwrittenExecutor;
  return !by_steps && !messages.empty() && fits(engine, messages.sends) && fits(engine, messages.receives);
}

Result<Started> MessageRun::start() {
  const ExchangeMessages& messages = operation().messages;
  OutgoingMessage sent;
  IncomingMessage received;
  if (!messages.sends.empty()) {
    Link& link = *engine_.links().link(messages.sends.front().peer);
    WREATH_TRY(link.prepare(kExchangeLane));
    WREATH_TRY(engine_.links().announce(engine_.members(), messages.sends.front().peer));
    sent = {.fifo = &link.send_fifo(kExchangeLane),
            .data = messages.sends.front().data,
            .bytes = messages.sends.front().bytes(),
            .signature = signature_of(engine_, Direction::Send, messages.sends.front()),
            .epoch = engine_.shape().epoch,
            .lands = true};
  }
  if (!messages.receives.empty()) {
    Link& link = *engine_.links().link(messages.receives.front().peer);
    WREATH_TRY(link.prepare(kExchangeLane));
    received = {.fifo = &link.recv_fifo(kExchangeLane),
                .data = messages.receives.front().data,
                .bytes = messages.receives.front().bytes(),
                .signature = signature_of(engine_, Direction::Receive, messages.receives.front()),
                .epoch = engine_.shape().epoch};
  }
  messages_.start(sent, received);
  return Started::Now;
}

Advance MessageRun::advance() {
  const Advance here = messages_.run();
  if (here == Advance::Done && messages_.waits()) messages_.take();
  return here;
}

RunFault MessageRun::fault() const {
  const Rank peer = received().peer;
  return {messages_.differs_in_size() ? engine_.other_count(peer) : engine_.other_call(peer)};
}

std::optional<Rank> MessageRun::waiting_for() const {
  if (messages_.waits()) return received().peer;
  return messages_.is_sent() ? std::nullopt : std::optional(sent().peer);
}

std::vector<Question> MessageRun::questions() const {
  std::vector<Question> questions;
  if (!messages_.is_sent()) questions.push_back({sent().peer, Subject::Send, sent().number});
  if (messages_.waits()) questions.push_back({received().peer, Subject::Receive, received().number});
  return questions;
}

}  // namespace wreath
