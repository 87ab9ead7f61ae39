// A captured call gets its number at the launch, neither at the capture nor when the stream comes to it. So all ranks
// number their calls in the order in which their programs launch graphs and make direct calls.
#include "src/communicator/captured_call.hpp"

#include <fmt/format.h>

#include <functional>
#include <mutex>
#include <utility>

#include "src/communicator/begin_operation.hpp"
#include "src/communicator/impl.hpp"
#include "src/engine/engine.hpp"

namespace wreath {
namespace {

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
    return begin_replay(kept_.exchanges() ? engine->prepare(kept_.call, kept_.messages) : engine->prepare(kept_.call));
  }

 private:
  Error destroyed() const {
    return {ErrorCode::InvalidUsage,
            fmt::format("launch: the communicator of a captured {} was destroyed", text_of(kept_)), -1};
  }

  std::weak_ptr<Engine> engine_;
  Operation kept_;  // owns its counts and displacements
};

}  // namespace

std::shared_ptr<GraphWork> capture_call(const std::shared_ptr<Engine>& engine, const Operation& prepared) {
  return std::make_shared<CapturedCall>(engine, prepared);
}

}  // namespace wreath
