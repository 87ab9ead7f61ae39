// Calls in streams: an operation waits in the communicator's queue until its stream comes to it.
#include "src/communicator/begin_operation.hpp"

#include <fmt/format.h>

#include "src/communicator/captured_call.hpp"
#include "src/engine/engine.hpp"
#include "wreath/device.hpp"

namespace wreath {
namespace {

// A stream holds this of an operation. A stream that has failed drops it instead of coming to it.
class StreamTurn {
 public:
  explicit StreamTurn(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}
  StreamTurn(const StreamTurn&) = delete;
  StreamTurn& operator=(const StreamTurn&) = delete;
  ~StreamTurn() {
    if (over_) return;  // else the ranks that enter the call would wait for it
    Engine& engine = *operation_->engine;
    engine.fail(ErrorCode::InvalidUsage, engine.rank(),
                fmt::format("{}: its stream failed before it came to the call", text_of(*operation_)));
  }
  Status come() {
    over_ = true;
    operation_->engine->open(*operation_);
    return operation_->engine->wait(*operation_, -1);
  }
  // The stream did not take it: somebody else says so.
  void refuse() { over_ = true; }

 private:
  std::shared_ptr<Operation> operation_;
  bool over_ = false;
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

// The caller's handle says that nothing runs: the graph's launches begin operations of their own.
Result<std::shared_ptr<Operation>> capture(LibraryStream& stream, std::shared_ptr<Operation> operation) {
  WREATH_TRY(stream.capture(capture_call(operation->engine, *operation)));
  operation->finish(was_captured(*operation));
  return operation;
}

Result<std::shared_ptr<Operation>> begin_in_stream(std::shared_ptr<Operation> operation) {
  Engine& engine = *operation->engine;
  static_cast<void>(engine.make_room());  // a failed communicator takes the call and ends it
  engine.take_turn(operation);
  const auto turn = std::make_shared<StreamTurn>(operation);
  const Status taken = operation->call.stream->run([turn] { return turn->come(); });
  if (taken) return operation;
  turn->refuse();
  engine.fail(taken.error().code, engine.rank(), fmt::format("its stream: {}", taken.error().message));
  return taken.error();
}

}  // namespace

Result<std::shared_ptr<Operation>> begin_operation(std::shared_ptr<Operation> operation) {
  Engine& engine = *operation->engine;
  const Call& call = operation->call;
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

std::function<Status()> begin_replay(const std::shared_ptr<Operation>& operation) {
  const auto turn = std::make_shared<StreamTurn>(operation);
  operation->engine->take_turn(operation);
  return [turn] { return turn->come(); };
}

}  // namespace wreath
