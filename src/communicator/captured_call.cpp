// Numbers are given at the launch, not at the capture and not when the stream comes to the call: so all ranks give them
// in the order in which their programs launch graphs and call directly.
#include "src/communicator/captured_call.hpp"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "src/communicator/engine.hpp"
#include "src/communicator/exchange_operation.hpp"
#include "src/communicator/impl.hpp"

namespace wreath {
namespace {

class CapturedCall final : public GraphWork {
 public:
  CapturedCall(const std::shared_ptr<Engine>& engine, const Operation& prepared) : engine_(engine) {
    kept_.reset(prepared.call);
    if (prepared.own == nullptr) return;
    text_ = prepared.own->describe();
    messages_ = static_cast<const Exchange&>(*prepared.own).messages();
  }

  Status check() override {
    const auto engine = engine_.lock();
    if (engine == nullptr || engine->leaving()) {
      return destroyed();
    }
    if (kept_.generation != fork_generation()) return inherited();
    if (!CallGuard(&engine->gate()).entered()) {
      return complaint(*engine, "launch", ErrorCode::InvalidUsage, kTwoAtOnce);
    }
    return engine->make_room();
  }

  std::function<Status()> begin() override {
    const auto engine = engine_.lock();
    if (engine == nullptr) {  // since check(), by another thread
      return [error = destroyed()] { return Status(error); };
    }
    const CallGuard guard(&engine->gate());
    if (!guard.entered()) engine->fail(ErrorCode::InvalidUsage, engine->rank(), std::string(kTwoAtOnce));
    return engine->begin_replay(text_.empty() ? engine->prepare(kept_.call)
                                              : engine->prepare(messages_, kept_.call.stream));
  }

 private:
  Error destroyed() const {
    return {ErrorCode::InvalidUsage, fmt::format("launch: the communicator of a captured {} was destroyed", text()),
            -1};
  }
  std::string text() const {
    return text_.empty() ? std::string(name(kept_.call.collective, kept_.call.varying())) : text_;
  }

  std::weak_ptr<Engine> engine_;
  Operation kept_;    // with its own counts and displacements
  std::string text_;  // of sends and receives; empty: it is a collective
  ExchangeMessages messages_;
};

}  // namespace

std::shared_ptr<GraphWork> capture_call(const std::shared_ptr<Engine>& engine, const Operation& prepared) {
  return std::make_shared<CapturedCall>(engine, prepared);
}

}  // namespace wreath
