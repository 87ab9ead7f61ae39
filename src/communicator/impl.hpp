// Communicator::Impl is the state of a Communicator. Its methods begin here: one call at a time, checked, and not in a
// fork's child.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "src/communicator/check_call.hpp"
#include "src/communicator/group.hpp"
#include "src/device/call_memory.hpp"
#include "src/engine/engine.hpp"
#include "wreath/communicator.hpp"

namespace wreath {

class RankCommunicator;

// Returns the error of a communicator that was not created, or was moved from.
Error not_made();
// Returns the error of a communicator that belongs to the parent of a fork.
Error inherited();
// Makes the error of `engine` about the call named `call`.
Error complaint(const Engine& engine, std::string_view call, ErrorCode code, std::string_view text);
// Ends the call with a caller's mistake, and tells the other ranks, which would wait for the call.
Error refuse(Engine& engine, std::string_view call, const Error& error);

inline constexpr std::string_view kTwoAtOnce = "another thread is in a call of this communicator";

struct Communicator::Impl {
  explicit Impl(std::shared_ptr<RankCommunicator> made);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  // Does nothing in the child of a fork, where everything belongs to the parent.
  ~Impl();

  bool inherited() const { return generation != fork_generation(); }
  // Calls body(engine), one call at a time, once check() succeeds. Otherwise it returns the error, with the name() of
  // the call.
  template <typename Name, typename Check, typename Body>
  std::invoke_result_t<Body, Engine&> make(Name name, Check check, Body body) {
    std::unique_lock guard(engine->gate(), std::defer_lock);
    if (inherited()) return wreath::inherited();
    // A group's calls touch nothing of the engine before the launch.
    if (GroupCalls::open() == nullptr && !guard.try_lock()) {
      return told(complaint(*engine, name(), ErrorCode::InvalidUsage, kTwoAtOnce));
    }
    if (const Status checked = check(); !checked) return told(refuse(*engine, name(), checked.error()));
    return body(*engine);
  }
  // Runs a call that repeats the one before. Returns nullopt where it does not repeat it, or where something else
  // prevents the call; make() then finds the reason.
  std::optional<Status> run_again(const Call& call) {
    if (inherited() || GroupCalls::open() != nullptr) return std::nullopt;
    if (device_of(call.input) != nullptr || device_of(call.output) != nullptr) return std::nullopt;
    return engine->run_again(call);
  }
  // Keeps a message that is plainly right in the thread's open Group. Returns false where the message is not, or no
  // Group is open; run() then does the rest.
  bool keep_plain(Direction direction, const ExchangeMessage& message);
  // Runs one message, now or with the thread's open Group.
  Status run(Direction direction, const StreamedMessage& message);
  // Starts one message, now or with the thread's open Group.
  Result<Work> start(Direction direction, const StreamedMessage& message);

  std::shared_ptr<RankCommunicator> rank;
  std::shared_ptr<Engine> engine;  // the rank's engine
  std::uint32_t generation;

 private:
  // Refuses the thread's open Group, since a group with one refused call begins none.
  static Error told(Error error) {
    if (GroupCalls* group = GroupCalls::open()) group->refuse(error);
    return error;
  }
};

}  // namespace wreath
