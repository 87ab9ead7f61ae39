// A communicator whose calls run one after the other: in their caller's thread when nothing is before them, else on a
// thread of the channel, in the order in which they came.
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

// The channel's communicator, held for one call. Its functions throw wreath::Exception.
class Turn {
 public:
  // A call that takes longer fails the communicator. Below 0: the communicator's own clocks end it.
  Turn(wreath::Communicator& communicator, std::int64_t timeout_ms)
      : communicator_(communicator), timeout_ms_(timeout_ms) {}
  void run(const wreath::Call& call);
  // As one, in any number.
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
  // The ranks meet in the first call, or in connect().
  Channel(Meeting meeting, GroupNames group);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();
  // Throws when they do not.
  void connect();
  // Returns when the task's Work is over.
  void run(Task task);
  void submit(Task task);
  // Ends what is in flight with an error. Any thread, any number of times.
  void abort() noexcept;
  // Waits so long for what is in flight, aborts what is left, and leaves the communicator. Later tasks fail.
  void close(std::chrono::milliseconds grace);
  // The communicator's first error, or success.
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
  const int pid_;  // of who made it: a child of fork has no thread

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool busy_ = false;     // someone has the turn
  bool closed_ = false;   // no task is taken any more
  bool leaving_ = false;  // the thread ends when it has nothing to do
  std::thread thread_;    // from the first task that is submitted on
  std::thread::id own_;

  std::mutex lifetime_;  // of what follows, which who has the turn changes
  bool aborted_ = false;
  std::optional<wreath::Communicator> communicator_;
  std::optional<wreath::Error> not_met_;
};

}  // namespace wreath_torch
