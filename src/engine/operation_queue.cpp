// The queue gives turns, and keeps operations that find no room.
#include "src/engine/operation_queue.hpp"

namespace wreath {

Status OperationQueue::first_failure() const {
  const std::lock_guard lock(mutex_);
  return *failure_;
}

void OperationQueue::add(const std::shared_ptr<Operation>& operation) {
  const std::lock_guard lock(mutex_);
  if (failure_) return operation->finish(*failure_);
  queue_.push_back(operation);
  size_.fetch_add(1, std::memory_order_release);
}

bool OperationQueue::put_off(const std::shared_ptr<Operation>& operation) {
  const std::lock_guard lock(mutex_);
  if (failure_) {
    operation->finish(*failure_);
    return true;
  }
  if (size() <= kMost) return false;
  backlog_.push_back(operation);
  return true;
}

std::shared_ptr<Operation> OperationQueue::first() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty() ? nullptr : queue_.front();
}

Operation* OperationQueue::front() {
  if (runs_immediate_) return &immediate_;
  if (empty()) return nullptr;
  const std::lock_guard lock(mutex_);
  return queue_.empty() ? nullptr : queue_.front().get();
}

std::pair<std::shared_ptr<Operation>, std::shared_ptr<Operation>> OperationQueue::take_front() {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Operation> first = std::move(queue_.front());
  queue_.pop_front();
  if (backlog_.empty()) {
    size_.fetch_sub(1, std::memory_order_release);
    return {std::move(first), nullptr};
  }
  std::shared_ptr<Operation> next = std::move(backlog_.front());
  backlog_.pop_front();
  return {std::move(first), std::move(next)};
}

std::uint64_t OperationQueue::first_waiting(const Question& question) const {
  if (empty()) return 0;
  const std::lock_guard lock(mutex_);
  bool waits = false;
  for (const auto& operation : queue_) {
    waits = waits || !operation->ready.load(std::memory_order_acquire);
    if (!waits) continue;
    const std::uint64_t number = first_number(*operation, question);
    if (number != 0) return number;
  }
  return 0;
}

}  // namespace wreath
