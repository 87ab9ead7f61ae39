// Entering a call gives it number, signature, choice and record. Some calls are over at once.
#include <fmt/format.h>
#include <sched.h>

#include "src/engine/call_shape.hpp"
#include "src/engine/engine.hpp"
#include "src/engine/exchange_lanes.hpp"

namespace wreath {
namespace {

constexpr int kTokenTries = 20;

CallRecord record_of(const Call& call, std::uint64_t number, std::uint64_t elements, const Choice& choice) {
  return {.number = number,
          .collective = call.collective,
          .dtype = call.dtype,
          .op = call.reduction.op,
          .varying = call.varying(),
          .root = call.root,
          .count = elements,
          .algorithm = choice.algorithm == nullptr ? ShortName() : choice.algorithm->name};
}

}  // namespace

const Choice& Engine::choice_of(const Query& query) {
  if (const Choice* const last = choices_.last(query); last != nullptr) return *last;
  const Choice& choice = choices_.choose(query);
  tell_choice(query, choice);
  return choice;
}

Error Engine::other_call(Rank peer) const {
  return {ErrorCode::Mismatch, fmt::format("{} is in another call than {}", member(peer), member(rank())), peer};
}

Error Engine::other_count(Rank peer) const {
  return {ErrorCode::Mismatch,
          fmt::format("{} sends another count of elements than is expected by {}", member(peer), member(rank())), peer};
}

void Engine::enter(Operation& operation) {
  if (operation.exchanges()) {
    exchange_log_.enter(operation.messages, rank());
    operation.record = record_messages(recorder_, operation.messages, rank());
    return;
  }
  Call& call = operation.call;
  if (call.collective == Collective::Barrier) {
    call.input = &entered_.barrier_bytes[0];
    call.output = &entered_.barrier_bytes[1];
  }
  const std::uint64_t elements = elements_of(call);
  operation.number = entered_.history.add(call, elements);
  operation.signature = entered_.history.signature();
  operation.choice = choice_of(query_of(call, elements, ranks()));
  const CallRecord record = record_of(call, operation.number, elements, operation.choice);
  operation.record = recorder_.enter(record);
  if (operation.choice.small && !needs_no_peer(operation)) {
    entered_.repeated.remember(call, {ranks(), rank()}, operation.choice, record);
  }
}

bool Engine::needs_no_peer(const Operation& operation) const {
  if (operation.exchanges()) return false;
  const bool nothing = !operation.call.varying() && operation.call.count == 0;
  return nothing || ranks() == 1 || operation.choice.algorithm == nullptr;
}

// Returns the error, which is alike on all ranks.
Error Engine::no_algorithm_for(const Call& call) const {
  const Error error = no_row(tuning(), query_of(call, elements_of(call), ranks()));
  return {error.code, fmt::format("{}: {}: {}", identity(), call_text(), error.message), rank()};
}

// Ends a call that needs no peer at once, while another thread may drive. After an abort it touches no buffer.
bool Engine::finish_alone(Operation& operation) {
  if (!needs_no_peer(operation)) return false;
  const std::lock_guard lock(driver_.at_once_mutex());
  Status status = error();
  if (status) {
    Run& run = driver_.at_once_run_for(operation);
    const auto started = run.start();
    if (!started) status = started.error();
    if (started && run.advance() == Advance::Failed) status = run.fault().error;
    if (status) status = run.end();
  }
  status ? recorder_.done(operation.record) : recorder_.failed(operation.record);
  operation.finish(status ? std::nullopt : std::optional(status.error()));
  return true;
}

// Takes the token while nothing is queued. Then only a look of the progress thread or the communicator's end can hold
// it. Waiting for those is cheaper than the queue.
bool Engine::take_idle_token() {
  for (int tries = 0; tries < kTokenTries; ++tries) {
    if (try_token()) return true;
    sched_yield();
  }
  return false;
}

Status Engine::run(const Call& call) {
  if (queue_.failed()) return error();
  if (!queue_.empty() || !take_idle_token()) return wait(*begin(prepare(call)), -1);
  Operation& operation = queue_.immediate();
  operation.reset(call);
  enter(operation);
  if (finish_alone(operation)) {
    release_token();
    return operation.status();
  }
  queue_.begin_immediate();
  return finish_immediate(operation);
}

std::optional<Status> Engine::run_again(const Call& call) {
  const bool small = call.count > 0 && call.count <= kPairMessageBytes;
  if (!small || !gate_.try_quick()) return std::nullopt;
  const bool free = queue_.empty() && !queue_.failed() && trace_ == nullptr;
  const RepeatedCall* const last = free ? entered_.repeated.find(call) : nullptr;
  if (last == nullptr) {
    release_token();
    return std::nullopt;
  }
  const std::uint64_t number = entered_.history.add(last->words());
  const std::uint32_t signature = entered_.history.signature();
  driver_.small().start(last->part(), call.input == nullptr ? entered_.barrier_bytes.data() : call.input,
                        call.output == nullptr ? entered_.barrier_bytes.data() + 1 : call.output, signature);
  // The record is written while the message is on its way.
  const std::uint64_t record = recorder_.enter(last->record(), number);
  if (driver_.spin_small() == Advance::Done) {
    driver_.count(call.collective, driver_.small().moved());
    recorder_.done_at_once(record);
    release_token();
    return Status();
  }
  Operation& operation = queue_.immediate();
  operation.reset(call);
  operation.number = number;
  operation.signature = signature;
  operation.record = record;
  operation.choice = last->choice();
  driver_.begin_small(operation);
  return finish_immediate(operation);
}

// Enters messages and quickly does those that plain code can do; it takes these out of `messages`. It does all that a
// send can do without while the message is on its way.
std::uint64_t Engine::run_small(ExchangeMessages& messages, bool of_host) {
  const bool plain = trace_ == nullptr && of_host;
  const CopyKernels& copies = copy_kernels();
  exchange_log_.enter(Direction::Send, messages.sends, rank());
  const OutgoingMessage sent = plain ? outgoing_of(*this, messages.sends) : OutgoingMessage();
  if (sent.fifo != nullptr) publish_message(sent, copies);
  exchange_log_.enter(Direction::Receive, messages.receives, rank());
  const std::uint64_t record = record_messages(recorder_, messages, rank());
  if (sent.fifo != nullptr) {
    driver_.count(Collective::Exchange, {sent.bytes, 0});
    links_->ring();
    // Only staging has a region that the peer must know.
    if (sent.bytes > kHeaderBytes) {
      const Status announced = links_->announce(*control_, messages.sends.front().peer);
      if (!announced) fail(announced.error().code, rank(), announced.error().message);
    }
    messages.sends.clear();
    if (!messages.receives.empty()) prepare_next(*sent.fifo);
  }
  if (plain && messages.sends.empty()) receive_small(messages.receives);
  return record;
}

// Takes a message that is small, the only one and soon here out of `receives`.
void Engine::receive_small(std::vector<ExchangeMessage>& receives) {
  const IncomingMessage received = incoming_of(*this, receives);
  if (received.fifo == nullptr) return;
  const CopyKernels& copies = copy_kernels();
  IdlePolicy& idle_policy = driver_.idle_policy();
  for (std::uint32_t look = 0; look <= idle_policy.small_looks(); ++look) {
    if (idle_policy.crowded() && look > 0 && !idle_policy.give_turn(look == 1)) return;
    if (take_message(received, copies) != Advance::Done) continue;
    receives.clear();
    links_->ring();
    return;
  }
}

std::optional<Status> Engine::run_now(ExchangeMessages& messages, bool of_host) {
  if (!gate_.try_quick()) return std::nullopt;
  if (queue_.empty() && !queue_.failed()) return run_exchange(messages, of_host);
  release_token();
  return std::nullopt;
}

Status Engine::run(ExchangeMessages& messages, bool of_host) {
  if (queue_.failed()) return error();
  if (queue_.empty() && take_idle_token()) return run_exchange(messages, of_host);
  return wait(*begin(prepare(exchange_in(nullptr), std::move(messages))), -1);
}

// Runs messages while nothing is in flight. The caller holds the token, but no longer on return.
Status Engine::run_exchange(ExchangeMessages& messages, bool of_host) {
  const std::uint64_t record = run_small(messages, of_host);
  if (messages.empty()) {
    recorder_.done_at_once(record);
    release_token();
    return {};
  }
  Operation& operation = queue_.immediate();
  operation.reset(exchange_in(nullptr));
  std::swap(operation.messages, messages);
  operation.record = record;
  queue_.begin_immediate();
  return finish_immediate(operation);
}

// Drives the immediate operation to its end. The caller holds the token, but no longer on return.
Status Engine::finish_immediate(Operation& operation) {
  driver_.drive(operation, Deadline::after_ms(-1));
  // The token still keeps other threads out.
  const std::optional<Status> status = operation.over() ? std::optional(operation.status()) : std::nullopt;
  release_token();
  return status ? *status : wait(operation, -1);
}

std::shared_ptr<Operation> Engine::prepare(const Call& call) {
  auto operation = std::make_shared<Operation>(shared_from_this());
  operation->reset(call);
  operation->keep_memory();
  return operation;
}

std::shared_ptr<Operation> Engine::prepare(const Call& exchange, ExchangeMessages messages) {
  auto operation = prepare(exchange);
  operation->messages = std::move(messages);
  operation->keep_memory();
  return operation;
}

std::shared_ptr<Operation> Engine::begin(std::shared_ptr<Operation> operation) {
  // A failed communicator takes the call and ends it.
  static_cast<void>(make_room());
  enter(*operation);
  if (finish_alone(*operation)) return operation;
  enqueue(operation);
  return operation;
}

void Engine::take_turn(const std::shared_ptr<Operation>& operation) {
  operation->ready.store(false, std::memory_order_relaxed);
  if (queue_.put_off(operation)) return;
  enter(*operation);
  enqueue(operation);
}

void Engine::open(Operation& operation) {
  operation.ready.store(true, std::memory_order_release);
  wake_driver();
}

// The queue leaves room so that the recorder does not lose calls in flight.
Status Engine::make_room() {
  drive_queue(OperationQueue::kMost, Deadline::after_ms(-1));
  return error();
}

void Engine::enqueue(const std::shared_ptr<Operation>& operation) {
  queue_.add(operation);
  progress_->kick();
}

}  // namespace wreath
