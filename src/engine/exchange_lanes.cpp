// Messages get their signatures, and run on FIFOs of the lane for exchanges.
#include "src/engine/exchange_lanes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/hash.hpp"
#include "src/engine/engine.hpp"
#include "src/engine/output_rules.hpp"
#include "src/fifo/access.hpp"

namespace wreath {
namespace {

struct Ends {
  Rank sender;
  Rank receiver;
};

// Returns a signature. It differs, but for chance, when the two ends mean different messages.
std::uint32_t signature_of(const ExchangeMessage& message, const Ends& of, std::uint64_t communicator) {
  const auto kind = static_cast<std::uint64_t>(Collective::Exchange) | static_cast<std::uint64_t>(message.dtype) << 8;
  const auto ends = static_cast<std::uint64_t>(of.sender) << 32 | static_cast<std::uint32_t>(of.receiver);
  return static_cast<std::uint32_t>(mix(communicator, message.number, kind, ends, message.count) >> 32);
}

MessageRecord recorded(Direction direction, const ExchangeMessage& message) {
  return {0, direction == Direction::Send, message.peer, message.dtype, message.count, message.number};
}

// Returns the bytes of the only message, where it is small and of a peer that maps memory. Returns 0 otherwise. The
// largest ones may be read out of the sender's memory instead (SingleCopy).
std::size_t bytes_of_small(const Engine& engine, const std::vector<ExchangeMessage>& messages) {
  if (messages.size() != 1) return 0;
  const ExchangeMessage& only = messages.front();
  if (only.peer == engine.rank() || engine.links().wire(only.peer) != nullptr) return 0;
  const std::uint64_t bytes = only.bytes();
  const std::size_t most = kPairMessageBytes - (engine.lanes().single_copy.possible() ? 1 : 0);
  return bytes <= std::min<std::uint64_t>(most, engine.shape().slot_bytes) ? bytes : 0;
}

Question question_of(const ExchangeMessages& messages, const Step& step) {
  const bool sends = step.op == StepOp::Send;
  const ExchangeMessage& message = sends ? messages.sends[step.source_part] : messages.receives[step.target_part];
  return {message.peer, sends ? Subject::Send : Subject::Receive, message.number};
}

}  // namespace

std::uint32_t signature_of(const Engine& engine, Direction direction, const ExchangeMessage& message) {
  const bool sends = direction == Direction::Send;
  const Ends ends = sends ? Ends{engine.rank(), message.peer} : Ends{message.peer, engine.rank()};
  return signature_of(message, ends, engine.communicator());
}

std::span<const std::byte> extent_of(const std::vector<ExchangeMessage>& messages) {
  const std::byte* first = nullptr;
  const std::byte* end = nullptr;
  for (const ExchangeMessage& message : messages) {
    if (message.count == 0) continue;
    first = first == nullptr ? message.data : std::min<const std::byte*>(first, message.data);
    end = std::max<const std::byte*>(end, message.data + message.bytes());
  }
  return {first, end};
}

std::uint64_t record_messages(FlightRecorder& recorder, const ExchangeMessages& messages, Rank me) {
  CallRecord record;
  record.collective = Collective::Exchange;
  record.dtype = DataType::Uint8;
  if (messages.sends.size() + messages.receives.size() == 1) {
    const ExchangeMessage& only = (messages.sends.empty() ? messages.receives : messages.sends).front();
    record.dtype = only.dtype;
    record.root = only.peer;
    record.count = only.count;
  } else {
    for (const ExchangeMessage& message : messages.sends) record.count += message.bytes();
    for (const ExchangeMessage& message : messages.receives) record.count += message.bytes();
  }
  const std::uint64_t key = recorder.enter(record);
  for (const Direction direction : {Direction::Send, Direction::Receive}) {
    for (const ExchangeMessage& message : messages.of(direction)) {
      if (message.peer != me) recorder.message(key, recorded(direction, message));
    }
  }
  return key;
}

Result<Launch> ExchangeLanes::launch(Engine& engine, const ExchangeMessages& messages) {
  const FifoShape& shape = engine.shape();
  // A message that fits the slots as a whole is on its way whether or not it is received. Larger ones take all of their
  // slots: ranks that share cores then wait for each other less often. All ranks must know the sizes of these slots.
  const std::uint64_t tile = engine.tuning().largest_tile();
  const bool mapped = engine.tuning().all_mapped();
  const std::uint64_t large_tile = mapped ? shape.mapped_slot_bytes(kExchangeLane) : shape.slot_bytes;
  const ExchangeTiles tiles{tile, large_tile, shape.slot_count * tile + 1};
  if (plan_exchange(messages, engine.rank(), engine.ranks(), tiles, plan_)) {
    WREATH_TRY(bind_fifos(engine.links(), plan_.bound));
  }
  for (const Direction direction : {Direction::Send, Direction::Receive}) {
    std::vector<std::uint32_t>& signatures = signatures_[static_cast<std::size_t>(direction)];
    signatures.clear();
    for (const ExchangeMessage& message : messages.of(direction)) {
      signatures.push_back(signature_of(engine, direction, message));
    }
  }
  Launch launch;
  launch.plan = &plan_.bound;
  for (const ExchangeMessage& message : messages.sends) launch.bytes += message.bytes();
  launch.sends_only = messages.receives.empty();
  launch.resident = engine.options().overrides.exchange_rounds == 0
                        ? LaneScheduler::kAllResident
                        : 2 * static_cast<std::size_t>(engine.options().overrides.exchange_rounds);
  OperationState& state = launch.state;
  state.geometry = plan_.geometry;
  state.buffers[static_cast<int>(Buffer::Input)] = plan_.input.first;
  state.buffers[static_cast<int>(Buffer::Output)] = plan_.output.first;
  state.input_signatures = signatures_[static_cast<std::size_t>(Direction::Send)].data();
  state.output_signatures = signatures_[static_cast<std::size_t>(Direction::Receive)].data();
  state.epoch = shape.epoch;
  state.streamed = streamed_of({plan_.output.span}, engine.lanes().streamed_bytes, engine.tuning());
  launch.table_parts = {static_cast<std::uint32_t>(messages.sends.size()),
                        static_cast<std::uint32_t>(messages.receives.size())};
  return launch;
}

OutgoingMessage outgoing_of(const Engine& engine, const std::vector<ExchangeMessage>& sends) {
  const std::size_t bytes = bytes_of_small(engine, sends);
  if (bytes == 0) return {};
  const ExchangeMessage& message = sends.front();
  Link& link = *engine.links().link(message.peer);
  SendFifo& fifo = link.send_fifo(kExchangeLane);
  if (bytes > kHeaderBytes && !link.prepare(kExchangeLane)) return {};
  if (!has_credit(fifo)) return {};
  return {&fifo, message.data, bytes, signature_of(engine, Direction::Send, message), engine.shape().epoch};
}

IncomingMessage incoming_of(const Engine& engine, const std::vector<ExchangeMessage>& receives) {
  const std::size_t bytes = bytes_of_small(engine, receives);
  if (bytes == 0) return {};
  const ExchangeMessage& message = receives.front();
  RecvFifo& fifo = engine.links().link(message.peer)->recv_fifo(kExchangeLane);
  return {&fifo, message.data, bytes, signature_of(engine, Direction::Receive, message), engine.shape().epoch};
}

std::string describe(const ExchangeMessages& messages) {
  const std::size_t sends = messages.sends.size();
  const std::size_t receives = messages.receives.size();
  if (sends + receives != 1) return fmt::format("a group of {} sends and {} recvs", sends, receives);
  const Direction direction = sends == 1 ? Direction::Send : Direction::Receive;
  return wreath::describe(recorded(direction, messages.of(direction).front()));
}

// Returns the message that each resident lane is at. Once no lane is left, it returns the messages that peers have not
// read yet.
std::vector<Question> ExchangeLanes::questions(const ExchangeMessages& messages, const LaneScheduler& lanes) const {
  const Lowered& lowered = plan_.bound.lowered;
  std::vector<Question> questions;
  for (const std::uint16_t index : lanes.running()) {
    const Step& step = lowered.steps[lanes.lane(index).step];
    if (step.op != StepOp::Copy) questions.push_back(question_of(messages, step));
  }
  if (!questions.empty()) return questions;
  for (const LoweredLane& lane : lowered.lanes) {
    const Step& last = lowered.steps[lane.first_step + lane.step_count - 1];
    if (last.op == StepOp::Send && !drained(*plan_.bound.targets[last.out_first]))
      questions.push_back(question_of(messages, last));
  }
  return questions;
}

}  // namespace wreath
