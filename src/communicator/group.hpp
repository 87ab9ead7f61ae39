// The calls that a thread's open Group keeps, and what the Works of those calls share.
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

// The operations of a group that was launched, as one.
class GroupWork final : public Completion {
 public:
  // Once, and one of them only.
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

// A send or receive, and the stream it is in.
struct StreamedMessage {
  ExchangeMessage message;
  Stream* stream;
};

class GroupCalls : public std::enable_shared_from_this<GroupCalls> {
 public:
  // Of this thread; null: no Group is open.
  static GroupCalls* open() noexcept;

  // Keeps a call whose arguments were checked.
  void keep(const std::shared_ptr<Engine>& engine, const Call& call);
  void keep(const std::shared_ptr<Engine>& engine, Direction direction, const StreamedMessage& message);
  // One of the calls was refused: launch() says so.
  void refuse(const Error& error);
  // Groups inside the outermost one end before it.
  void open_inside() { ++inside_; }
  void close_inside() { --inside_; }
  // A Work of any of the calls.
  Work work();

  // Begins all, or none.
  Status launch();
  // launch(), and waits for all.
  Status run();
  // As new, with the memory of before. Only where no Work was given away.
  void clear();
  bool gave_work() const { return handle_ != nullptr; }
  bool usable() const { return generation_ == fork_generation(); }

 private:
  struct OfEngine {
    std::shared_ptr<Engine> engine;
    ExchangeMessages messages;
    Stream* stream = nullptr;  // of the messages
    std::vector<std::shared_ptr<Operation>> operations;
  };
  std::span<OfEngine> kept() { return {kept_.data(), count_}; }
  std::span<const OfEngine> kept() const { return {kept_.data(), count_}; }
  OfEngine& of(const std::shared_ptr<Engine>& engine);
  Status check() const;
  Status begin();

  std::vector<OfEngine> kept_;  // the first count_: in the order of their first calls
  std::size_t count_ = 0;
  std::optional<Error> refused_;
  int inside_ = 0;                                      // groups that are open inside
  const std::uint32_t generation_ = fork_generation();  // another one: this is the child of a fork
  std::shared_ptr<GroupWork> work_;                     // both: once a Work was asked for
  std::shared_ptr<Operation> handle_;
};

}  // namespace wreath
