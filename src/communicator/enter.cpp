// Entering calls: numbers, signatures, choices, records; and calls that need no peer.
#include <fmt/format.h>

#include "src/communicator/call_shape.hpp"
#include "src/communicator/engine.hpp"

namespace wreath {
namespace {

constexpr std::size_t kMaximumQueued = kRecordedCalls / 2;

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
  recorder_.enter(record);
}

// Calls that need no peer are over at once.
bool Engine::trivial(Operation& operation) {
  const Call& call = operation.call;
  const bool nothing = !call.varying() && call.count == 0;
  const bool served = operation.choice.algorithm != nullptr || ranks() == 1;
  if (!nothing && served && ranks() > 1) return false;
  if (!nothing && !served) {  // alike on all ranks
    const Error error = no_row(tuning_, query_of(call, elements_of(call), ranks()));
    recorder_.failed(operation.number);
    operation.finish(Error{error.code, fmt::format("{}: {}: {}", identity_, call_text(), error.message), rank()});
    return true;
  }
  if (!nothing && call.collective != Collective::Barrier) finish_alone(call);
  recorder_.done(operation.number);
  operation.finish(std::nullopt);
  return true;
}

Status Engine::run(const Call& call) {
  if (failed_.load(std::memory_order_acquire)) return error();
  if (queued_.load(std::memory_order_acquire) > 0 || !try_token()) return wait(*start(call), -1);
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

std::shared_ptr<Operation> Engine::start(const Call& call) {
  drive_queue(kMaximumQueued, Deadline::after_ms(-1));  // the recorder must not lose calls in flight
  auto operation = std::make_shared<Operation>(shared_from_this());
  operation->reset(call);
  enter(*operation);
  if (trivial(*operation)) return operation;
  return enqueue(std::move(operation));
}

std::shared_ptr<Operation> Engine::start(std::unique_ptr<OwnPlan> own) {
  drive_queue(kMaximumQueued, Deadline::after_ms(-1));
  auto operation = std::make_shared<Operation>(shared_from_this());
  operation->reset({});
  operation->own = std::move(own);
  return enqueue(std::move(operation));
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
