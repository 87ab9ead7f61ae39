// A call in a stream becomes an operation that waits in the communicator's queue until its stream comes to it.
#include "src/communicator/begin_operation.hpp"

#include <fmt/format.h>

#include <functional>
#include <mutex>
#include <utility>

#include "src/communicator/impl.hpp"
#include "src/device/library_stream.hpp"
#include "src/engine/engine.hpp"
#include "wreath/device.hpp"

namespace wreath {
namespace {

// A stream holds the turn of an operation. A stream that has failed drops the turn instead of coming to it.
class StreamTurn {
 public:
  explicit StreamTurn(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}
  StreamTurn(const StreamTurn&) = delete;
  StreamTurn& operator=(const StreamTurn&) = delete;
  ~StreamTurn() {
    // Otherwise the ranks that enter the call would wait for this one.
    if (over_) return;
    Engine& engine = *operation_->engine;
    engine.fail(ErrorCode::InvalidUsage, engine.rank(),
                fmt::format("{}: its stream failed before it came to the call", text_of(*operation_)));
  }
  Status come() {
    over_ = true;
    operation_->engine->open(*operation_);
    return operation_->engine->wait(*operation_, -1);
  }
  // Notes that the stream did not take the turn. The caller reports that.
  void refuse() { over_ = true; }

 private:
  std::shared_ptr<Operation> operation_;
  bool over_ = false;
};

// A call that a stream captured takes its turn among the communicator's calls anew with each launch of the graph. It
// gets its number at the launch, neither at the capture nor when the stream comes to it. So all ranks number their
// calls in the order in which their programs launch graphs and make direct calls. It does not keep the communicator,
// which may end before the graph.
class CapturedCall final : public GraphWork {
 public:
  CapturedCall(const std::shared_ptr<Engine>& engine, const Operation& prepared) : engine_(engine) {
    kept_.reset(prepared.call);
    kept_.messages = prepared.messages;
  }

  Status check() override {
    const auto engine = engine_.lock();
    if (engine == nullptr || engine->leaving()) {
      return destroyed();
    }
    if (kept_.generation != fork_generation()) return inherited();
    if (!std::unique_lock(engine->gate(), std::try_to_lock)) {
      return complaint(*engine, "launch", ErrorCode::InvalidUsage, kTwoAtOnce);
    }
    return engine->make_room();
  }

  std::function<Status()> begin() override {
    const auto engine = engine_.lock();
    // Another thread has destroyed the communicator since check().
    if (engine == nullptr) {
      return [error = destroyed()] { return Status(error); };
    }
    const std::unique_lock guard(engine->gate(), std::try_to_lock);
    if (!guard) engine->fail(ErrorCode::InvalidUsage, engine->rank(), std::string(kTwoAtOnce));
    const auto operation =
        kept_.exchanges() ? engine->prepare(kept_.call, kept_.messages) : engine->prepare(kept_.call);
    const auto turn = std::make_shared<StreamTurn>(operation);
    // The queue needs no room: a call that finds none is entered when those before it are over.
    engine->take_turn(operation);
    return [turn] { return turn->come(); };
  }

 private:
  Error destroyed() const {
    return {ErrorCode::InvalidUsage,
            fmt::format("launch: the communicator of a captured {} was destroyed", text_of(kept_)), -1};
  }

  std::weak_ptr<Engine> engine_;
  Operation kept_;  // owns its counts and displacements
};

// The handle of a captured call says this.
Error was_captured(const Operation& operation) {
  const Engine& engine = *operation.engine;
  const Call& call = operation.call;
  return {ErrorCode::InvalidUsage,
          fmt::format("{}: {}: the call was captured: it runs when its graph is launched", engine.identity(),
                      name(call.collective, call.varying())),
          engine.rank()};
}

// Gives the call to the stream's graph. The caller's handle says that nothing runs, since the graph's launches begin
// operations of their own.
Result<std::shared_ptr<Operation>> capture(LibraryStream& stream, std::shared_ptr<Operation> operation) {
  WREATH_TRY(stream.capture(std::make_shared<CapturedCall>(operation->engine, *operation)));
  operation->finish(was_captured(*operation));
  return operation;
}

Result<std::shared_ptr<Operation>> begin_in_stream(std::shared_ptr<Operation> operation) {
  Engine& engine = *operation->engine;
  // A failed communicator takes the call and ends it.
  static_cast<void>(engine.make_room());
  engine.take_turn(operation);
  const auto turn = std::make_shared<StreamTurn>(operation);
  const Status taken = operation->call.stream->run([turn] { return turn->come(); });
  if (taken) return operation;
  turn->refuse();
  engine.fail(taken.error().code, engine.rank(), fmt::format("its stream: {}", taken.error().message));
  return taken.error();
}

}  // namespace

Status check_stream(const Engine& engine, const Stream* stream, std::string_view call) {
  const Status taken = takes_calls(stream);
  if (taken) return {};
  return complaint(engine, call, taken.error().code, taken.error().message);
}

Status check_blocking(const Engine& engine, const Call& call) {
  LibraryStream* const stream = capturing(call.stream);
  if (stream == nullptr) return {};
  const std::string_view text = name(call.collective, call.varying());
  stream->invalidate(fmt::format("a blocking {} was called in one of its streams", text));
  return complaint(engine, text, ErrorCode::InvalidUsage, "a blocking call in a stream that captures");
}

Result<std::shared_ptr<Operation>> begin_operation(std::shared_ptr<Operation> operation) {
  Engine& engine = *operation->engine;
  const Call& call = operation->call;
  WREATH_TRY(check_stream(engine, call.stream, name(call.collective, call.varying())));
  Undriven* const undriven = engine.undriven();
  if (undriven != nullptr && undriven->takes(call)) {
    const auto begun = undriven->begin(*operation);
    if (!begun) return begun.error();
    if (!*begun) operation->finish(was_captured(*operation));
    return operation;
  }
  if (LibraryStream* const stream = capturing(call.stream)) return capture(*stream, std::move(operation));
  return call.stream != nullptr ? begin_in_stream(std::move(operation)) : engine.begin(std::move(operation));
}

}  // namespace wreath
