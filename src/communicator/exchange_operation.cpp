// Messages get their numbers and signatures, and run on FIFOs of the lane that is theirs.
#include "src/communicator/exchange_operation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/hash.hpp"
#include "src/communicator/engine.hpp"
#include "src/communicator/staged_buffers.hpp"
#include "src/device/call_memory.hpp"
#include "src/fifo/access.hpp"

namespace wreath {
namespace {

struct Ends {
  Rank sender;
  Rank receiver;
};

// Differs, but for chance, when the two ends mean different messages.
std::uint32_t signature_of(const ExchangeMessage& message, const Ends& of, std::uint64_t communicator) {
  const auto kind = static_cast<std::uint64_t>(Collective::Exchange) | static_cast<std::uint64_t>(message.dtype) << 8;
  const auto ends = static_cast<std::uint64_t>(of.sender) << 32 | static_cast<std::uint32_t>(of.receiver);
  return static_cast<std::uint32_t>(mix(communicator, message.number, kind, ends, message.count) >> 32);
}

MessageRecord recorded(Direction direction, const ExchangeMessage& message) {
  return {0, direction == Direction::Send, message.peer, message.dtype, message.count, message.number};
}

// From the lowest address to the end of the last message.
std::span<const std::byte> span_of(const std::vector<ExchangeMessage>& messages) {
  const std::byte* first = nullptr;
  const std::byte* end = nullptr;
  for (const ExchangeMessage& message : messages) {
    if (message.count == 0) continue;
    first = first == nullptr ? message.data : std::min<const std::byte*>(first, message.data);
    end = std::max<const std::byte*>(end, message.data + message.bytes());
  }
  return {first, end};
}

}  // namespace

void Exchange::enter() { engine_.exchange_log().enter(messages_, engine_.rank()); }

std::uint64_t Exchange::record(FlightRecorder& recorder) const {
  CallRecord record;
  record.collective = Collective::Exchange;
  record.dtype = DataType::Uint8;
  const bool one = messages_.sends.size() + messages_.receives.size() == 1;
  for (const Direction direction : {Direction::Send, Direction::Receive}) {
    for (const ExchangeMessage& message : messages_.of(direction)) {
      record.count += one ? message.count : message.bytes();
      if (one) record.dtype = message.dtype;
      if (one) record.root = message.peer;
    }
  }
  const std::uint64_t key = recorder.enter(record);
  for (const Direction direction : {Direction::Send, Direction::Receive}) {
    for (const ExchangeMessage& message : messages_.of(direction)) {
      if (message.peer != engine_.rank()) recorder.message(key, recorded(direction, message));
    }
  }
  return key;
}

CallMemory Exchange::memory() const {
  CallMemory memory;
  for (const Direction direction : {Direction::Send, Direction::Receive}) {
    for (const ExchangeMessage& message : messages_.of(direction)) {
      if (message.count > 0) memory.add(message.data);
    }
  }
  return memory;
}

// Fills placed_, where the addresses are others.
Status Exchange::place(const CallMemory& memory, StagedBuffers& staged) {
  placed_ = {};
  if (!memory.on_device) return {};
  staged.clear();
  if (!memory.by_blocks) {
    for (const ExchangeMessage& message : messages_.sends) staged.add(message.data, message.bytes(), false);
    for (const ExchangeMessage& message : messages_.receives) staged.add(message.data, message.bytes(), true);
    WREATH_TRY(staged.bring());
  }
  placed_ = messages_;
  for (std::vector<ExchangeMessage>* messages : {&placed_.sends, &placed_.receives}) {
    for (ExchangeMessage& message : *messages) {
      if (message.count == 0) continue;
      message.data = memory.by_blocks ? memory.device->address_in_kernels(message.data) : staged.at(message.data);
    }
  }
  return {};
}

Result<Launch> Exchange::launch(const CallMemory& memory, StagedBuffers& staged) {
  const FifoShape& shape = engine_.shape();
  WREATH_TRY(place(memory, staged));
  if (plan_exchange(memory.on_device ? placed_ : messages_, engine_.rank(), engine_.ranks(), shape.slot_bytes, plan_)) {
    WREATH_TRY(bind_fifos(engine_.links(), plan_.bound));
  }
  for (const Direction direction : {Direction::Send, Direction::Receive}) {
    std::vector<std::uint32_t>& signatures = signatures_[static_cast<std::size_t>(direction)];
    signatures.clear();
    for (const ExchangeMessage& message : messages_.of(direction)) signatures.push_back(signature(direction, message));
  }
  Launch launch;
  launch.plan = &plan_.bound;
  for (const ExchangeMessage& message : messages_.sends) launch.bytes += message.bytes();
  launch.sends_only = messages_.receives.empty();
  launch.resident = engine_.exchange_rounds() == 0 ? LaneScheduler::kAllResident
                                                   : 2 * static_cast<std::size_t>(engine_.exchange_rounds());
  OperationState& state = launch.state;
  state.geometry = plan_.geometry;
  state.buffers[static_cast<int>(Buffer::Input)] = plan_.input.first;
  state.buffers[static_cast<int>(Buffer::Output)] = plan_.output.first;
  state.input_signatures = signatures_[static_cast<std::size_t>(Direction::Send)].data();
  state.output_signatures = signatures_[static_cast<std::size_t>(Direction::Receive)].data();
  state.epoch = shape.epoch;
  state.streams_output = engine_.streams(plan_.output.span);
  launch.spans = {plan_.input.span, plan_.output.span};
  launch.table_parts = {static_cast<std::uint32_t>(messages_.sends.size()),
                        static_cast<std::uint32_t>(messages_.receives.size())};
  if (memory.by_blocks && launch.sends_only) return launch;  // their senders do not wait for readers
  // On the host device blocks have other addresses than the program.
  const std::span<const std::byte> sent =
      memory.by_blocks ? span_of(messages_.sends) : std::span(plan_.input.first, plan_.input.span);
  engine_.name_memory(state, Buffer::Input, sent, memory.by_blocks);
  return launch;
}

std::uint32_t Exchange::signature(Direction direction, const ExchangeMessage& message) const {
  const Ends ends =
      direction == Direction::Send ? Ends{engine_.rank(), message.peer} : Ends{message.peer, engine_.rank()};
  return signature_of(message, ends, engine_.communicator());
}

Exchange::Pair Exchange::pair() {
  const auto fits = [&](const std::vector<ExchangeMessage>& messages) {
    if (messages.empty()) return true;
    const ExchangeMessage& only = messages.front();
    if (device_of(only.data) != nullptr) return false;
    const std::uint64_t most = std::min<std::uint64_t>(kSmallMessageBytes, engine_.shape().slot_bytes);
    return messages.size() == 1 && only.count > 0 && only.bytes() <= most && only.peer != engine_.rank() &&
           engine_.links().wire(only.peer) == nullptr;
  };
  if (!fits(messages_.sends) || !fits(messages_.receives)) return {};
  Pair pair;
  for (const ExchangeMessage& message : messages_.sends) {
    Link& link = *engine_.links().link(message.peer);
    if (!link.prepare(kExchangeLane) || !has_credit(link.send_fifo(kExchangeLane))) return {};
    pair.sent = {&link.send_fifo(kExchangeLane), message.data, message.bytes(), signature(Direction::Send, message),
                 engine_.shape().epoch};
  }
  for (const ExchangeMessage& message : messages_.receives) {
    pair.received = {&engine_.links().link(message.peer)->recv_fifo(kExchangeLane), message.data, message.bytes(),
                     signature(Direction::Receive, message), engine_.shape().epoch};
  }
  return pair;
}

void Exchange::take_out(Direction direction) {
  (direction == Direction::Send ? messages_.sends : messages_.receives).clear();
}

std::uint64_t Exchange::first_number(const Question& question) const {
  if (question.subject == Subject::Call) return 0;
  const Direction direction = question.subject == Subject::Send ? Direction::Send : Direction::Receive;
  for (const ExchangeMessage& message : messages_.of(direction)) {
    if (message.peer == question.peer) return message.number;
  }
  return 0;
}

std::string Exchange::describe() const {
  const std::size_t sends = messages_.sends.size();
  const std::size_t receives = messages_.receives.size();
  if (sends + receives != 1) return fmt::format("a group of {} sends and {} recvs", sends, receives);
  const Direction direction = sends == 1 ? Direction::Send : Direction::Receive;
  return wreath::describe(recorded(direction, messages_.of(direction).front()));
}

Question Exchange::question(const Step& step) const {
  const bool sends = step.op == StepOp::Send;
  const ExchangeMessage& message = sends ? messages_.sends[step.source_part] : messages_.receives[step.target_part];
  return {message.peer, sends ? Subject::Send : Subject::Receive, message.number};
}

// The message that each resident lane is at; once no lane is left, those whose readers are awaited.
std::vector<Question> Exchange::questions(const LaneScheduler& lanes) const {
  const Lowered& lowered = plan_.bound.lowered;
  std::vector<Question> questions;
  for (const std::uint16_t index : lanes.running()) {
    const Step& step = lowered.steps[lanes.lane(index).step];
    if (step.op != StepOp::Copy) questions.push_back(question(step));
  }
  if (!questions.empty()) return questions;
  for (const LoweredLane& lane : lowered.lanes) {
    const Step& last = lowered.steps[lane.first_step + lane.step_count - 1];
    if (last.op == StepOp::Send && !drained(*plan_.bound.targets[last.out_first])) questions.push_back(question(last));
  }
  return questions;
}

}  // namespace wreath
