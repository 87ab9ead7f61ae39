// Runs a communicator's calls one after the other, in the order in which they came. A call runs in its caller's thread
// when nothing is before it, else on a thread of the channel.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "bindings/torch/errors.hpp"
#include "bindings/torch/rendezvous.hpp"
#include "bindings/torch/work.hpp"
#include "wreath/wreath.hpp"

namespace wreath_torch {

// Holds the channel's communicator for one call. Its functions throw wreath::Exception.
class Turn {
 public:
  // Fails the communicator for a call that takes longer. Below 0 the communicator's own clocks end the call.
  Turn(wreath::Communicator& communicator, std::int64_t timeout_ms)
      : communicator_(communicator), timeout_ms_(timeout_ms) {}
  void run(const wreath::Call& call);
  // Runs the calls as one, in any number.
  void run_together(std::span<const wreath::Call> calls);
  void send(const wreath::Call& call, int peer);
  void receive(const wreath::Call& call, int peer);

 private:
  void wait(wreath::Work work);
  wreath::Communicator& communicator_;
  std::int64_t timeout_ms_;
};

struct Task {
  c10::intrusive_ptr<CallWork> work;
  std::function<void(Turn&)> body;
  std::int64_t timeout_ms;
};

class Channel : public std::enable_shared_from_this<Channel> {
 public:
  // Makes a channel, whose ranks meet in the first call, or in connect().
  Channel(Meeting meeting, GroupNames group);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();
  // Makes the ranks meet; throws when they do not.
  void connect();
  // Runs a task; returns when its Work is over.
  void run(Task task);
  void submit(Task task);
  // Ends what is in flight with an error. Any thread may call it, any number of times.
  void abort() noexcept;
  // Waits for `grace` for what is in flight, aborts what is left, and leaves the communicator. Later tasks fail.
  void close(std::chrono::milliseconds grace);
  // Returns the communicator's first error, or success.
  wreath::Status error();

 private:
  bool take_turn();
  void give_turn();
  void execute(const Task& task);
  void refuse(const Task& task, const char* reason);
  wreath::Communicator& communicator();
  void serve();
  void leave();
  bool inherited() const;

  Interrupt interrupt_;
  Meeting meeting_;
  GroupNames group_;
  // Is the process that made the channel: a child of fork() has no thread.
  const int pid_;

  // Guards the fields that follow, up to `lifetime_`.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  // Says that a thread has the turn.
  bool busy_ = false;
  // Says that no task is taken any more.
  bool closed_ = false;
  // The thread ends when it has nothing to do.
  bool leaving_ = false;
  // Runs from the first task that is submitted on.
  std::thread thread_;
  std::thread::id own_;

  // Guards the fields that follow, which the thread that has the turn changes.
  std::mutex lifetime_;
  bool aborted_ = false;
  std::optional<wreath::Communicator> communicator_;
  std::optional<wreath::Error> not_met_;
};

}  // namespace wreath_torch
