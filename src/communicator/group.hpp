// A thread's open Group keeps calls here, and the Works of those calls share one handle.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/engine/engine.hpp"
#include "src/engine/exchange.hpp"
#include "src/engine/operation.hpp"
#include "wreath/group.hpp"

namespace wreath {

// GroupWork is the Completion of all operations of a launched group.
class GroupWork final : public Completion {
 public:
  // One of these two is called, and only once.
  void begun(std::vector<std::shared_ptr<Operation>> operations);
  void refused(Error error);

  bool over() const override;
  Status wait(std::int64_t timeout_ms) override;

 private:
  enum class State : std::uint8_t { Kept, Begun, Refused };
  std::atomic<State> state_{State::Kept};
  std::vector<std::shared_ptr<Operation>> operations_;
  std::optional<Error> error_;
};

// This is a send or receive with its stream.
struct StreamedMessage {
  ExchangeMessage message;
  Stream* stream;
};

// These are the calls of a thread's groups, of one outermost group after the other.
class GroupCalls {
 public:
  // Returns the calls of this thread's open Group, or null where no Group is open.
  static GroupCalls* open() noexcept { return open_; }
  // Begins and ends the keeping of calls of an outermost group.
  void begin_keeping() noexcept {
    open_ = this;
    generation_ = fork_generation();
    inside_ = 0;
  }
  static void end_keeping() noexcept { open_ = nullptr; }

  // Keeps a call whose arguments were checked.
  void keep(Engine& engine, const Call& call);
  void keep(Engine& engine, Direction direction, const StreamedMessage& message) {
    OfEngine& kept = of(engine);
    if (kept.messages.empty()) kept.stream = message.stream;
    if (kept.stream != message.stream) refuse_stream(engine);
    (direction == Direction::Send ? kept.messages.sends : kept.messages.receives).emplace_back() = message.message;
  }
  // Keeps an engine alive whose communicator this thread destroys. launch() then returns an error.
  void hold(std::shared_ptr<Engine> engine) { held_.push_back(std::move(engine)); }
  // Notes that one of the calls was refused. launch() then returns that error.
  void refuse(const Error& error);
  // Notes that a Group inside the outermost one begins. The inner Group must end first.
  void open_inside() { ++inside_; }
  // Notes that a Group inside the outermost one has ended.
  void close_inside() { --inside_; }
  // Returns a Work that stands for any of the calls.
  Work work();

  // Begins all calls, or none.
  Status launch();
  // Launches the calls and waits for all of them.
  Status run();
  // Empties the object but keeps its memory.
  void clear();

 private:
  struct OfEngine {
    Engine* engine = nullptr;
    ExchangeMessages messages;
    Stream* stream = nullptr;  // the messages' stream
    std::vector<std::shared_ptr<Operation>> operations;
  };
  // These are the calls of this thread's outermost Group.
  static inline constinit thread_local GroupCalls* open_ = nullptr;

  std::span<OfEngine> kept() { return {kept_.data(), count_}; }
  std::span<const OfEngine> kept() const { return {kept_.data(), count_}; }
  OfEngine& of(Engine& engine);
  // Refuses a message that is not in the stream of those before it.
  void refuse_stream(const Engine& engine);
  Status check() const;
  Status begin();

  // The first `count_` entries are in the order of their first calls.
  std::vector<OfEngine> kept_;
  std::size_t count_ = 0;
  std::vector<std::shared_ptr<Engine>> held_;
  std::optional<Error> refused_;
  int inside_ = 0;  // groups that are open inside
  // Where the current generation differs, this process is the child of a fork.
  std::uint32_t generation_ = 0;
  // The pointer is null until work() makes the object.
  std::shared_ptr<GroupWork> work_;
  // The pointer is null until work() makes the object.
  std::shared_ptr<Operation> handle_;
};

}  // namespace wreath
