// The driver is the work of the token's holder, round after round. It advances the first operation's run, moves the
// wires, calls the watch, and sleeps.
#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/progress.hpp"
#include "src/engine/alone_run.hpp"
#include "src/engine/idle_policy.hpp"
#include "src/engine/lanes_run.hpp"
#include "src/engine/message_run.hpp"
#include "src/engine/run.hpp"
#include "src/engine/small_run.hpp"

namespace wreath {

class Driver {
 public:
  enum class Round : std::uint8_t { Nothing, Blocked, Moved };
  using Driven = Progress::Client::Driven;

  explicit Driver(Engine& engine) : engine_(engine) {}
  // Prepares the runs before the ranks link.
  void prepare(const MakeOuterRuns& make_outer);
  // Links the runs. The caller has made the links and set the tuner's context.
  Status link();
  // Forgets the runs of rooms above the engine.
  void forget_outer();

  Round round();
  // Runs rounds until the operation is over or the deadline passes.
  void drive(Operation& operation, const Deadline& deadline);
  // Stops the run and the wires after a failure. Returns false while one of them still reads or writes memory of
  // operations. The driver calls it again until then.
  bool stop();
  // Returns how long wires alone have kept stop() from returning true.
  std::int64_t held_ns() const;
  // Names the wires that hold memory of operations, and their peers: "mlx5_0 port 1 to rank 3 (host h1, pid 4711)".
  std::string holders() const;
  // Ends all operations with the failure. Returns false where there was no operation.
  bool finish_all();
  // Makes the small run the immediate operation's run.
  void begin_small(Operation& operation);
  // Advances the small run until it is done or has waited for a while.
  Advance spin_small();
  // Returns the peer that the first operation waits for.
  std::optional<Rank> waiting_for() const;
  // Returns the questions for peers when the first operation does not move.
  std::vector<Question> questions() const { return run_ == nullptr ? std::vector<Question>{} : run_->questions(); }

  // Lets the progress thread sleep instead of the driver. The caller holds the token. The added `descriptors` wake the
  // thread. Returns false where it must not sleep.
  bool begin_wait(std::vector<int>& descriptors);
  // Says how soon wires need a turn between calls: never, Later, or at once (Waiting). Any thread may ask.
  Driven next_turn() const { return next_turn_.load(std::memory_order_relaxed); }
  void end_wait();

  // A thread holds the mutex while it touches buffers of a call without the token.
  std::mutex& at_once_mutex() { return at_once_mutex_; }
  // Returns the run of a call that needs no peer. It runs while another thread may drive.
  Run& at_once_run_for(Operation& operation) { return within(outer_at_once_.get(), alone_at_once_, operation); }
  SmallRun& small() { return small_; }
  LaneResources& lanes() { return lanes_; }
  const LaneResources& lanes() const { return lanes_; }
  IdlePolicy& idle_policy() { return idle_policy_; }
  const IdlePolicy& idle_policy() const { return idle_policy_; }
  // Counts the bytes that a call moved. The holder of the token calls it, once per operation.
  void count(Collective collective, const WireBytes& bytes) noexcept {
    // There is one writer, so no instruction is locked.
    const auto add = [](std::atomic<std::uint64_t>& counted, std::uint64_t more) {
      counted.store(counted.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    };
    Moved& moved = moved_by_[static_cast<std::size_t>(collective)];
    add(moved.sent, bytes.sent);
    add(moved.loaded, bytes.loaded);
  }
  // Returns the bytes that calls of a collective moved. Any thread may ask.
  WireBytes moved_by(Collective collective) const noexcept {
    const Moved& moved = moved_by_[static_cast<std::size_t>(collective)];
    return {moved.sent.load(std::memory_order_relaxed), moved.loaded.load(std::memory_order_relaxed)};
  }

 private:
  struct Moved {
    std::atomic<std::uint64_t> sent{0};
    std::atomic<std::uint64_t> loaded{0};
  };

  static Run& within(OuterRuns* outer, Run& own, Operation& operation);
  Run& run_for(Operation& operation);
  Result<Started> start_run(Operation& operation);
  Result<std::size_t> move(Rank peer, bool expecting);
  bool pump(const Operation& operation, const Run* run);
  bool stop_wires();
  bool carry_words();
  Round round_between_calls();
  void on_wire_broken_between_calls(Rank peer, const Error& error);
  bool needs_turn(Rank peer) const;
  void leave_wires_to_progress();
  bool arm_wires();
  // Returns the message of an error, with both ends of the wire.
  std::string between(Rank peer, const Error& error) const;
  void on_broken_wire(const Operation& operation, Rank peer, const Error& error);
  void on_fault(const Operation& operation);
  bool wires_idle() const;
  void finish(const Operation& operation, std::optional<Error> error);
  void idle(Operation& operation, std::uint32_t rounds, std::int64_t& idle_since_ns);
  bool sleeps(const Operation& operation, std::int64_t idle_since_ns, std::int64_t now) const;
  std::int64_t longest_sleep_ns() const;
  void sleep();
  bool is_rung_within(std::int64_t longest_ns);

  Engine& engine_;
  std::unique_ptr<OuterRuns> outer_;  // of a room above the engine; may be null
  AloneRun alone_run_{engine_};
  // These are for calls that need no peer and end at once, while another thread may drive.
  std::mutex at_once_mutex_;
  std::unique_ptr<OuterRuns> outer_at_once_;
  AloneRun alone_at_once_{engine_};
  std::int64_t slept_until_ns_ = 0;
  Run* run_ = nullptr;    // runs the first operation; null: it has not begun
  bool started_ = false;  // false: the run waits to start
  LaneResources lanes_;
  LanesRun lanes_run_{engine_, lanes_};
  SmallRun small_{engine_};
  MessageRun message_run_{engine_};
  IdlePolicy idle_policy_;
  std::array<Moved, static_cast<std::size_t>(Collective::Exchange) + 1> moved_by_;
  std::optional<std::vector<Rank>> holding_;  // the peers whose wires have not stopped; nothing before a failure
  std::int64_t held_since_ns_ = 0;
  std::atomic<Driven> next_turn_{Driven::Nothing};  // between calls
  bool waiting_ = false;                            // the progress thread sleeps
  std::vector<pollfd> polled_;                      // used while the driver sleeps
};

}  // namespace wreath
