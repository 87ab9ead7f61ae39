// OperationQueue holds the operations of a communicator that have their turn, and the failure that ends them all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "src/engine/operation.hpp"
#include "src/recorder/recorder.hpp"

namespace wreath {

class OperationQueue {
 public:
  // The limit makes sure that the recorder does not lose calls in flight.
  static constexpr std::size_t kMost = kRecordedCalls / 2;

  // Any thread may call the functions below.

  std::size_t size() const { return size_.load(std::memory_order_acquire); }
  bool empty() const { return size() == 0; }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Returns the first failure.
  Status error() const { return failed() ? first_failure() : Status(); }
  // Fails with the first error, and every operation that is added later ends with it. It calls `before` before any
  // operation may end so. Returns false where the queue has failed before.
  template <typename Function>
  bool fail(const Error& error, Function before) {
    const std::lock_guard lock(mutex_);
    if (failure_) return false;
    failure_ = error;
    before();
    failed_.store(true, std::memory_order_release);
    return true;
  }
  // Calls `body` with true where the queue has failed. The queue cannot fail during that call.
  template <typename Function>
  void hold(Function body) {
    const std::lock_guard lock(mutex_);
    body(failure_.has_value());
  }
  // Adds an entered operation.
  void add(const std::shared_ptr<Operation>& operation);
  // Returns true where the operation must not be entered now. Either it waits in the backlog of a full queue, or the
  // queue has failed and ended it.
  bool put_off(const std::shared_ptr<Operation>& operation);
  std::shared_ptr<Operation> first() const;
  // Returns the number of the first call, or message of the question's peer and subject, that has its turn but has not
  // begun. That operation, or one before it, may not begin yet. Returns 0 where there is none.
  std::uint64_t first_waiting(const Question& question) const;

  // The driver, which holds the token, calls the functions below.

  // Returns the operation of a blocking call that finds nothing in flight. It needs no place in the queue.
  Operation& immediate() { return immediate_; }
  void begin_immediate() { runs_immediate_ = true; }
  // Returns the operation whose turn it is, or null where there is none.
  Operation* front();
  // Takes the front out, calls enter(next) for the first operation of the backlog, and then ends the front. Until
  // `next` is in the queue it counts as queued, so that no operation goes ahead of it.
  template <typename Function>
  void finish_front(std::optional<Error> error, Function enter) {
    if (runs_immediate_) {
      runs_immediate_ = false;
      immediate_.finish(std::move(error));
      return;
    }
    auto [first, next] = take_front();
    if (next != nullptr) {
      enter(*next);
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(next));
    }
    // The last handle may be the queue's.
    first->finish(std::move(error));
  }

 private:
  Status first_failure() const;
  std::pair<std::shared_ptr<Operation>, std::shared_ptr<Operation>> take_front();

  mutable std::mutex mutex_;  // guards queue_, backlog_ and failure_
  std::deque<std::shared_ptr<Operation>> queue_;
  std::deque<std::shared_ptr<Operation>> backlog_;  // launches of graphs, not entered yet; the queue is full meanwhile
  std::atomic<std::size_t> size_{0};
  std::optional<Error> failure_;
  std::atomic<bool> failed_{false};
  Operation immediate_;
  bool runs_immediate_ = false;
};

}  // namespace wreath
