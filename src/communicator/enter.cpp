// Entering calls: numbers, signatures, choices, records; and calls that need no peer.
#include <fmt/format.h>
#include <sched.h>

#include "src/communicator/call_shape.hpp"
#include "src/communicator/engine.hpp"
#include "src/communicator/exchange_operation.hpp"
#include "wreath/device.hpp"

namespace wreath {
namespace {

constexpr std::size_t kMaximumQueued = kRecordedCalls / 2;
constexpr int kTokenTries = 20;

// What one rank alone does: its one block, or the vector, from Input to Output. Sums of one are finished, too.
void finish_alone(const Call& call) {
  std::size_t elements = call.count;
  const std::byte* input = call.input;
  std::byte* output = call.output;
  if (call.varying()) {
    const Blocks& in = call.input_blocks;
    const Blocks& out = call.output_blocks;
    elements = (in.counts.empty() ? out : in).counts.front();
    if (elements == 0) return;
    if (!in.counts.empty()) input += in.displacements.front() * size_of(call.dtype);
    if (!out.counts.empty()) output += out.displacements.front() * size_of(call.dtype);
  }
  const Arithmetic sum = arithmetic(call.dtype, call.reduction, 1);
  if (reduces(call.collective) && !sum.moves(Form::Data, Form::Data)) {
    sum.combine(sum, output, Form::Data, &input, 1, {Form::Data, 0, Form::Data}, elements);
  } else if (input != output) {
    copy_kernels().plain(output, input, elements * size_of(call.dtype));
  }
}

}  // namespace

const Choice& Engine::choice_of(const Query& query) {
  Chosen& chosen = chosen_[static_cast<std::size_t>(query.collective)];
  if (chosen.choice.algorithm == nullptr || chosen.query != query) chosen = {query, choose(tuning_, query)};
  return chosen.choice;
}

void Engine::enter(Operation& operation) {
  if (operation.own) {
    operation.record = operation.own->enter(recorder_);
    return;
  }
  Call& call = operation.call;
  if (call.collective == Collective::Barrier) {
    call.input = &barrier_bytes_[0];
    call.output = &barrier_bytes_[1];
  }
  const std::uint64_t elements = elements_of(call);
  operation.number = ++entered_;
  operation.signature = signature_of(call, elements, membership_.communicator, operation.number);
  operation.choice = choice_of(query_of(call, elements, ranks()));
  CallRecord record;
  record.number = operation.number;
  record.collective = call.collective;
  record.varying = call.varying();
  record.dtype = call.dtype;
  record.op = call.reduction.op;
  record.root = call.root;
  record.count = elements;
  if (operation.choice.algorithm != nullptr) record.algorithm = operation.choice.algorithm->name;
  operation.record = recorder_.enter(record);
}

// Whether it needs no peer: alone, without elements, or with no algorithm to serve it.
bool Engine::is_trivial(const Operation& operation) const {
  const bool nothing = !operation.call.varying() && operation.call.count == 0;
  return nothing || ranks() == 1 || operation.choice.algorithm == nullptr;
}

// Ends a trivial operation.
void Engine::finish_trivial(Operation& operation) {
  const Call& call = operation.call;
  const bool nothing = !call.varying() && call.count == 0;
  if (!nothing && ranks() > 1) {  // not served: alike on all ranks
    const Error error = no_row(tuning_, query_of(call, elements_of(call), ranks()));
    recorder_.failed(operation.record);
    operation.finish(Error{error.code, fmt::format("{}: {}: {}", identity_, call_text(), error.message), rank()});
    return;
  }
  if (!nothing && call.collective != Collective::Barrier) finish_alone(call);
  recorder_.done(operation.record);
  operation.finish(std::nullopt);
}

// Calls that need no peer are over at once.
bool Engine::trivial(Operation& operation) {
  if (!is_trivial(operation)) return false;
  finish_trivial(operation);
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
  if (queued_.load(std::memory_order_acquire) > 0 || !take_idle_token()) {
    const auto operation = start(call);
    return operation ? wait(**operation, -1) : Status(operation.error());
  }
  inline_operation_.reset(call);
  enter(inline_operation_);
  if (trivial(inline_operation_)) {
    release_token();
  } else {
    inline_ = &inline_operation_;
    drive_until_over(inline_operation_, Deadline::after_ms(-1));
  }
  return inline_operation_.status();
}

std::shared_ptr<Operation> Engine::prepare(const Call& call) {
  auto operation = std::make_shared<Operation>(shared_from_this());
  operation->reset(call);
  return operation;
}

std::shared_ptr<Operation> Engine::prepare(ExchangeMessages messages) {
  auto operation = prepare(Call{});
  operation->own = std::make_unique<Exchange>(*this, std::move(messages));
  return operation;
}

Result<std::shared_ptr<Operation>> Engine::begin(std::shared_ptr<Operation> operation) {
  drive_queue(kMaximumQueued, Deadline::after_ms(-1));  // the recorder must not lose calls in flight
  enter(*operation);
  if (operation->call.stream != nullptr) return begin_on_stream(std::move(operation));
  if (!operation->own && trivial(*operation)) return operation;
  return enqueue(std::move(operation));
}

Result<std::shared_ptr<Operation>> Engine::begin_on_stream(std::shared_ptr<Operation> operation) {
  const bool alone = is_trivial(*operation);
  operation->ready.store(alone, std::memory_order_relaxed);
  const Status taken = operation->call.stream->run([self = shared_from_this(), operation, alone] {
    if (alone) {
      self->finish_trivial(*operation);
      return operation->status();
    }
    self->open(*operation);
    return self->wait(*operation, -1);
  });
  if (!taken) {  // the ranks that enter this call would wait for it
    fail(taken.error().code, rank(), fmt::format("{}: its stream: {}", identity_, taken.error().message));
    return taken.error();
  }
  return alone ? operation : enqueue(operation);
}

// The operation's stream has come to it.
void Engine::open(Operation& operation) {
  operation.ready.store(true, std::memory_order_release);
  ring();
  progress_->kick();
}

// The number of the first call that has its turn but whose stream has not come to it; 0: none.
std::uint64_t Engine::first_waiting_for_stream() const {
  if (queued_.load(std::memory_order_acquire) == 0) return 0;
  const std::lock_guard lock(mutex_);
  for (const auto& operation : queue_) {
    if (!operation->ready.load(std::memory_order_acquire)) return operation->number;
  }
  return 0;
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
