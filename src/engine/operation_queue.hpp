// The operations of a communicator that have their turn, and the failure that ends them all.
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
  // The recorder must not lose calls in flight.
  static constexpr std::size_t kMost = kRecordedCalls / 2;

  // Any thread.

  std::size_t size() const { return size_.load(std::memory_order_acquire); }
  bool empty() const { return size() == 0; }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // The first failure.
  Status error() const;
  // Fails with the first error; whatever is added later ends with it. Calls `before` before any operation may end so.
  // False: it has failed before.
  template <typename Function>
  bool fail(const Error& error, Function before) {
    const std::lock_guard lock(mutex_);
    if (failure_) return false;
    failure_ = error;
    before();
    failed_.store(true, std::memory_order_release);
    return true;
  }
  // Calls `body` with whether the queue has failed, which it does not meanwhile.
  template <typename Function>
  void hold(Function body) {
    const std::lock_guard lock(mutex_);
    body(failure_.has_value());
  }
  // Adds an entered operation.
  void add(const std::shared_ptr<Operation>& operation);
  // Whether an operation is not to be entered now: it waits in the backlog of a full queue, or the queue has failed.
  bool put_off(const std::shared_ptr<Operation>& operation);
  std::shared_ptr<Operation> first() const;
  // The number of the first call, or message of the question's peer and subject, that has its turn but is not begun,
  // for a stream has not come to it or to what is before it; 0: none.
  std::uint64_t first_waiting(const Question& question) const;

  // The driver, which holds the token.

  // The operation of a blocking call that finds nothing in flight needs no place in the queue: it is kept here.
  Operation& immediate() { return immediate_; }
  void begin_immediate() { runs_immediate_ = true; }
  // The operation whose turn it is; null: none.
  Operation* front();
  // Takes the front out, and ends it after enter(next) of the backlog's next: until that stands in the queue it counts
  // as queued, so that nothing gets before it.
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
    first->finish(std::move(error));  // the last handle may be the queue's
  }

 private:
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
