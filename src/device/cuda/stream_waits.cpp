// Counts waits. The thread that ends the last one does the deferred work, and new waits begin only afterwards.
#include "src/device/cuda/stream_waits.hpp"

#include <chrono>
#include <utility>

namespace wreath {

StreamWaits& StreamWaits::of_process() {
  static StreamWaits* const one = new StreamWaits;  // NOLINT(cppcoreguidelines-*): late objects still use it
  return *one;
}

void StreamWaits::begin() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return !busy_; });
  ++waits_;
}

void StreamWaits::end() {
  std::unique_lock lock(mutex_);
  if (--waits_ == 0 && !busy_) do_all(lock);
}

void StreamWaits::when_none(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  put_off_.push_back(std::move(work));
  if (waits_ == 0 && !busy_) do_all(lock);
}

void StreamWaits::do_all(std::unique_lock<std::mutex>& lock) {
  busy_ = true;
  while (!put_off_.empty()) {
    const std::vector<std::function<void()>> now = std::exchange(put_off_, {});
    lock.unlock();
    for (const auto& work : now) work();
    lock.lock();
  }
  busy_ = false;
  done_.notify_all();
}

bool StreamWaits::settle(std::int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  const bool any = busy_ || !put_off_.empty();
  return any && done_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return !busy_ && put_off_.empty(); });
}

}  // namespace wreath
