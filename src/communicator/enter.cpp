// Entering calls: numbers, signatures, choices, records; and calls that are over at once.
#include <fmt/format.h>
#include <sched.h>

#include "src/communicator/call_shape.hpp"
#include "src/communicator/engine.hpp"
#include "src/communicator/exchange_lanes.hpp"
#include "src/device/call_memory.hpp"
#include "src/device/library_stream.hpp"

namespace wreath {
namespace {

constexpr int kTokenTries = 20;

CallRecord record_of(const Call& call, std::uint64_t number, std::uint64_t elements, const Choice& choice) {
  CallRecord record;
  record.number = number;
  record.collective = call.collective;
  record.varying = call.varying();
  record.dtype = call.dtype;
  record.op = call.reduction.op;
  record.root = call.root;
  record.count = elements;
  if (choice.algorithm != nullptr) record.algorithm = choice.algorithm->name;
  return record;
}

}  // namespace

const Choice& Engine::choice_of(const Query& query) {
  Chosen& chosen = chosen_[static_cast<std::size_t>(query.collective)];
  if (chosen.choice.algorithm != nullptr && chosen.query == query) return chosen.choice;
  chosen = {query, choose(tuning_, query)};
  tell_choice(query, chosen.choice);
  return chosen.choice;
}

void Engine::enter(Operation& operation) {
  if (operation.exchanges()) {
    exchange_log_.enter(operation.messages, rank());
    operation.record = record_messages(recorder_, operation.messages, rank());
    return;
  }
  Call& call = operation.call;
  if (call.collective == Collective::Barrier) {
    call.input = &barrier_bytes_[0];
    call.output = &barrier_bytes_[1];
  }
  const std::uint64_t elements = elements_of(call);
  operation.number = history_.add(call, elements);
  operation.signature = history_.signature();
  operation.choice = choice_of(query_of(call, elements, ranks()));
  const CallRecord record = record_of(call, operation.number, elements, operation.choice);
  operation.record = recorder_.enter(record);
  if (operation.choice.small && !needs_no_peer(operation)) {
    repeated_[static_cast<std::size_t>(call.collective)].remember(call, {ranks(), rank()}, operation.choice, record);
  }
}

bool Engine::needs_no_peer(const Operation& operation) const {
  if (operation.exchanges()) return false;
  const bool nothing = !operation.call.varying() && operation.call.count == 0;
  return nothing || ranks() == 1 || operation.choice.algorithm == nullptr;
}

// It is alike on all ranks.
Error Engine::no_algorithm_for(const Call& call) const {
  const Error error = no_row(tuning_, query_of(call, elements_of(call), ranks()));
  return {error.code, fmt::format("{}: {}: {}", identity_, call_text(), error.message), rank()};
}

// Calls that need no peer are over at once, while another thread may drive. After an abort nobody touches buffers any
// more.
bool Engine::finish_alone(Operation& operation) {
  if (!needs_no_peer(operation)) return false;
  const std::lock_guard lock(alone_);
  Status status = error();
  if (status) {
    Run& run = alone_runs_.run_for(operation);
    const auto started = run.start();
    if (!started) status = started.error();
    if (started && run.advance() == Advance::Failed) status = run.fault().error;
    if (status) status = run.end();
  }
  status ? recorder_.done(operation.record) : recorder_.failed(operation.record);
  operation.finish(status ? std::nullopt : std::optional(status.error()));
  return true;
}

// With nothing queued only a look of the progress thread, or the end of the communicator, can hold the token: waiting
// for that is cheaper than the queue.
bool Engine::take_idle_token() {
  for (int tries = 0; tries < kTokenTries; ++tries) {
    if (try_token()) return true;
    sched_yield();
  }
  return false;
}

Status Engine::run(const Call& call) {
  if (failed_.load(std::memory_order_acquire)) return error();
  if (takes_low_latency(call)) {
    const auto operation = begin_low_latency(prepare(call));
    return operation ? wait(**operation, -1) : Status(operation.error());
  }
  if (queued_.load(std::memory_order_acquire) > 0 || !take_idle_token()) {
    const auto operation = start(call);
    return operation ? wait(**operation, -1) : Status(operation.error());
  }
  inline_operation_.reset(call);
  enter(inline_operation_);
  if (finish_alone(inline_operation_)) {
    release_token();
  } else {
    inline_ = &inline_operation_;
    drive_until_over(inline_operation_, Deadline::after_ms(-1));
  }
  return inline_operation_.status();
}

Advance Engine::spin_small() {
  Advance advanced = small_.advance();
  for (std::uint32_t look = 0; look < small_looks_ && advanced == Advance::Blocked; ++look) {
    if (crowded_ && !give_turn(look == 0)) break;
    advanced = small_.advance();
  }
  return advanced;
}

std::optional<Status> Engine::run_again(const Call& call) {
  const auto index = static_cast<std::size_t>(call.collective);
  if (index >= repeated_.size() || call.count > kSmallMessageBytes || !gate_.try_quick()) return std::nullopt;
  const RepeatedCall& last = repeated_[index];
  const bool free = queued_.load(std::memory_order_acquire) == 0 && !failed_.load(std::memory_order_acquire);
  const bool of_host = device_of(call.input) == nullptr && device_of(call.output) == nullptr;
  if (!free || !of_host || trace_ != nullptr || !last.is(call)) {
    release_token();
    return std::nullopt;
  }
  const std::uint64_t number = history_.add(call, call.count);
  const std::uint32_t signature = history_.signature();
  SmallCall small = last.small();
  small.input = call.input == nullptr ? barrier_bytes_.data() : call.input;
  small.output = call.output == nullptr ? barrier_bytes_.data() + 1 : call.output;
  small.signature = signature;
  small_.start(small);
  const std::uint64_t record = recorder_.enter(last.record(), number);  // while the message is on its way
  if (spin_small() == Advance::Done) {
    wire_.add(call.collective, small_.moved());
    recorder_.done(record);
    release_token();
    return Status();
  }
  Operation& operation = inline_operation_;
  operation.reset(call);
  operation.number = number;
  operation.signature = signature;
  operation.record = record;
  operation.choice = last.choice();
  small_.set(operation);
  run_ = &small_;
  run_started_ = true;
  inline_ = &operation;
  drive(operation, Deadline::after_ms(-1));
  const Status status = operation.status();  // while the token keeps others out
  release_token();
  return status;
}

// Enters messages, and does what plain code quickly does of them: those are taken out. The record is written while the
// message is on its way.
std::uint64_t Engine::run_pair(ExchangeMessages& messages) {
  exchange_log_.enter(messages, rank());
  const MessagePair pair = trace_ == nullptr ? pair_of(*this, messages) : MessagePair();
  if (pair.sent.fifo != nullptr) publish_message(pair.sent, copy_kernels());
  const std::uint64_t record = record_messages(recorder_, messages, rank());
  if (pair.sent.fifo != nullptr) {
    wire_.add(Collective::Exchange, {pair.sent.bytes, 0});
    messages.sends.clear();
    doorbells_.ring();
    if (const Status announced = links_->announce(*control_); !announced) {
      fail(announced.error().code, rank(), announced.error().message);
    }
  }
  if (pair.received.fifo == nullptr) return record;
  for (std::uint32_t look = 0; look <= small_looks_; ++look) {
    if (crowded_ && look > 0 && !give_turn(look == 1)) break;
    if (take_message(pair.received, copy_kernels()) != Advance::Done) continue;
    messages.receives.clear();
    doorbells_.ring();
    break;
  }
  return record;
}

Status Engine::run(ExchangeMessages& messages) {
  if (failed_.load(std::memory_order_acquire)) return error();
  if (queued_.load(std::memory_order_acquire) > 0 || !take_idle_token()) {
    const auto operation = start(std::move(messages), nullptr);
    return operation ? wait(**operation, -1) : Status(operation.error());
  }
  Operation& operation = inline_operation_;
  Call exchange;
  exchange.collective = Collective::Exchange;
  operation.reset(exchange);
  std::swap(operation.messages, messages);
  operation.record = run_pair(operation.messages);
  if (operation.messages.empty()) {
    recorder_.done(operation.record);
    release_token();
    return {};
  }
  inline_ = &operation;
  drive_until_over(operation, Deadline::after_ms(-1));
  return operation.status();
}

std::shared_ptr<Operation> Engine::prepare(const Call& call) {
  auto operation = std::make_shared<Operation>(shared_from_this());
  operation->reset(call);
  operation->use_memory(call.input);
  operation->use_memory(call.output);
  return operation;
}

std::shared_ptr<Operation> Engine::prepare(ExchangeMessages messages, Stream* stream) {
  Call none;
  none.collective = Collective::Exchange;
  none.stream = stream;
  auto operation = prepare(none);
  for (const ExchangeMessage& each : messages.sends) operation->use_memory(each.data);
  for (const ExchangeMessage& each : messages.receives) operation->use_memory(each.data);
  operation->messages = std::move(messages);
  return operation;
}

Result<std::shared_ptr<Operation>> Engine::begin(std::shared_ptr<Operation> operation) {
  if (takes_low_latency(operation->call)) return begin_low_latency(std::move(operation));
  if (LibraryStream* const stream = capturing(operation->call.stream)) return capture(*stream, std::move(operation));
  static_cast<void>(make_room());  // a failed communicator takes the call and ends it
  enter(*operation);
  if (operation->call.stream != nullptr) return begin_on_stream(std::move(operation));
  if (finish_alone(*operation)) return operation;
  return enqueue(std::move(operation));
}

// The recorder must not lose calls in flight.
Status Engine::make_room() {
  drive_queue(kMaximumQueued, Deadline::after_ms(-1));
  return error();
}

std::shared_ptr<Operation> Engine::enqueue(std::shared_ptr<Operation> operation) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) {
      operation->finish(*failure_);
      return operation;
    }
    queue_.push_back(operation);
    queued_.fetch_add(1, std::memory_order_release);
  }
  progress_->kick();
  return operation;
}

}  // namespace wreath
