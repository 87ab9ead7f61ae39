// Calls in streams: an operation waits in the communicator's queue until its stream comes to it.
#include <fmt/format.h>

#include "src/communicator/captured_call.hpp"
#include "src/communicator/engine.hpp"
#include "wreath/device.hpp"

namespace wreath {

// What a stream holds of an operation. A stream that has failed drops it instead of coming to it.
class StreamTurn {
 public:
  StreamTurn(std::shared_ptr<Engine> engine, std::shared_ptr<Operation> operation)
      : engine_(std::move(engine)), operation_(std::move(operation)) {}
  StreamTurn(const StreamTurn&) = delete;
  StreamTurn& operator=(const StreamTurn&) = delete;
  ~StreamTurn() {
    if (over_) return;  // else the ranks that enter the call would wait for it
    engine_->fail(ErrorCode::InvalidUsage, engine_->rank(),
                  fmt::format("{}: its stream failed before it came to the call", text_of(*operation_)));
  }
  Status come() {
    over_ = true;
    engine_->open(*operation_);
    return engine_->wait(*operation_, -1);
  }
  // The stream did not take it: somebody else says so.
  void refuse() { over_ = true; }

 private:
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Operation> operation_;
  bool over_ = false;
};

Result<std::shared_ptr<Operation>> Engine::begin_on_stream(std::shared_ptr<Operation> operation) {
  operation->ready.store(false, std::memory_order_relaxed);
  const auto turn = std::make_shared<StreamTurn>(shared_from_this(), operation);
  const Status taken = operation->call.stream->run([turn] { return turn->come(); });
  if (taken) return enqueue(operation);
  turn->refuse();
  fail(taken.error().code, rank(), fmt::format("its stream: {}", taken.error().message));
  return taken.error();
}

std::function<Status()> Engine::begin_replay(std::shared_ptr<Operation> operation) {
  operation->ready.store(false, std::memory_order_relaxed);
  const auto turn = std::make_shared<StreamTurn>(shared_from_this(), operation);
  if (!put_off(operation)) {
    enter(*operation);
    enqueue(std::move(operation));
  }
  return [turn] { return turn->come(); };
}

// Whether the operation is not to be entered now: it waits in the backlog of a full queue, or the communicator failed.
bool Engine::put_off(const std::shared_ptr<Operation>& operation) {
  const std::lock_guard lock(mutex_);
  if (failure_) {
    operation->finish(*failure_);
    return true;
  }
  if (queued_.load(std::memory_order_acquire) <= kMaximumQueued) return false;
  backlog_.push_back(operation);
  return true;
}

// Takes the first operation out of the queue, and enters the next of the backlog: until that stands in the queue it
// counts as queued, so that nothing gets before it.
std::shared_ptr<Operation> Engine::take_front() {
  std::shared_ptr<Operation> first;
  std::shared_ptr<Operation> next;
  {
    const std::lock_guard lock(mutex_);
    first = std::move(queue_.front());
    queue_.pop_front();
    if (backlog_.empty()) {
      queued_.fetch_sub(1, std::memory_order_release);
    } else {
      next = std::move(backlog_.front());
      backlog_.pop_front();
    }
  }
  if (next == nullptr) return first;
  enter(*next);
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(next));
  return first;
}

// The caller's handle says that nothing runs: the graph's launches begin operations of their own.
Result<std::shared_ptr<Operation>> Engine::capture(LibraryStream& stream, std::shared_ptr<Operation> operation) {
  WREATH_TRY(stream.capture(capture_call(shared_from_this(), *operation)));
  operation->finish(captured(operation->call));
  return operation;
}

Error Engine::captured(const Call& call) const {
  return {ErrorCode::InvalidUsage,
          fmt::format("{}: {}: the call was captured: it runs when its graph is launched", identity_,
                      name(call.collective, call.varying())),
          rank()};
}

// The operation's stream has come to it.
void Engine::open(Operation& operation) {
  operation.ready.store(true, std::memory_order_release);
  ring();
  progress_->kick();
}

// The number of the first call, or message of the question's peer and subject, that has its turn but is not begun, for
// a stream has not come to it or to what is before it; 0: none.
std::uint64_t Engine::first_waiting_for_stream(const Question& question) const {
  if (queued_.load(std::memory_order_acquire) == 0) return 0;
  const std::lock_guard lock(mutex_);
  bool waits = false;
  for (const auto& operation : queue_) {
    waits = waits || !operation->ready.load(std::memory_order_acquire);
    if (!waits) continue;
    const std::uint64_t number = first_number(*operation, question);
    if (number != 0) return number;
  }
  return 0;
}

}  // namespace wreath
