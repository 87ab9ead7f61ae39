// What a Communicator holds, and how each of its methods begins: one call at a time, checked, not in a fork's child.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "src/communicator/check_call.hpp"
#include "src/communicator/group.hpp"
#include "src/device/call_memory.hpp"
#include "src/engine/call_gate.hpp"
#include "src/engine/engine.hpp"
#include "wreath/communicator.hpp"

namespace wreath {

class RankCommunicator;

// What stands in the way of any use.
Error not_made();
Error inherited();
// A complaint of `engine` about the call named `call`.
Error complaint(const Engine& engine, std::string_view call, ErrorCode code, std::string_view text);
// A caller's mistake ends the call here and is told to the other ranks, who would wait for it.
Error refuse(Engine& engine, std::string_view call, const Error& error);

inline constexpr std::string_view kTwoAtOnce = "another thread is in a call of this communicator";

struct Communicator::Impl {
  explicit Impl(std::shared_ptr<RankCommunicator> made);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  // In the child of a fork everything belongs to the parent: nothing is said or ended.
  ~Impl();

  bool inherited() const { return generation != fork_generation(); }
  // Does body(engine) alone, once check() is satisfied; or says what stands in the way of the call named name().
  template <typename Name, typename Check, typename Body>
  std::invoke_result_t<Body, Engine&> make(Name name, Check check, Body body) {
    // What a group keeps touches nothing of the engine before the launch.
    const CallGuard guard(GroupCalls::open() == nullptr ? &engine->gate() : nullptr);
    if (inherited()) return wreath::inherited();
    if (!guard.entered()) {
      return told(complaint(*engine, name(), ErrorCode::InvalidUsage, kTwoAtOnce));
    }
    if (const Status checked = check(); !checked) return told(refuse(*engine, name(), checked.error()));
    return body(*engine);
  }
  // A call like the one before; nullopt: it is not, or something stands in its way, which make() will find.
  std::optional<Status> run_again(const Call& call) {
    if (inherited() || GroupCalls::open() != nullptr) return std::nullopt;
    if (device_of(call.input) != nullptr || device_of(call.output) != nullptr) return std::nullopt;
    return engine->run_again(call);
  }
  // One message, now or with the thread's open Group.
  Status run(Direction direction, const ExchangeMessage& message);
  Result<Work> start(Direction direction, const StreamedMessage& message);

  std::shared_ptr<RankCommunicator> rank;
  std::shared_ptr<Engine> engine;  // the rank's
  std::uint32_t generation;

 private:
  // A group of which one call is refused begins none.
  static Error told(Error error) {
    if (GroupCalls* group = GroupCalls::open()) group->refuse(error);
    return error;
  }
};

}  // namespace wreath
