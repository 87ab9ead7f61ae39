// The stream's thread takes one item of work at a time.
#include "src/device/host_stream.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <chrono>

#include "src/base/clock.hpp"
#include "src/base/signals.hpp"
#include "src/device/check_copy.hpp"

namespace wreath {
namespace {

// Waits on `changed` until `ready()`, at most `timeout_ms` (< 0, or beyond what clocks count: without end).
template <typename Ready>
bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, std::int64_t timeout_ms,
                Ready ready) {
  if (timeout_ms >= 0 && timeout_ms <= kLongestMs)
    return changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), ready);
  changed.wait(lock, ready);
  return true;
}

Error not_ready(std::string_view what, std::int64_t timeout_ms) {
  return {ErrorCode::NotReady, fmt::format("{} is still busy after {} ms", what, timeout_ms)};
}

// Null for an event of another device.
HostEvent* own(Event& event) { return dynamic_cast<HostEvent*>(&event); }

Error foreign() { return {ErrorCode::InvalidArgument, "host stream: the event belongs to another device"}; }

}  // namespace

std::uint64_t HostEventState::next() {
  const std::lock_guard lock(mutex_);
  ahead_.insert(++recorded_);
  return recorded_;
}

std::uint64_t HostEventState::recorded() const {
  const std::lock_guard lock(mutex_);
  return recorded_;
}

void HostEventState::reach(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  ahead_.erase(number);
  reached_.notify_all();
}

bool HostEventState::wait(std::uint64_t number, std::int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  return wait_until(reached_, lock, timeout_ms, [&] { return !ahead_.contains(number); });
}

bool HostEvent::done() const { return state_->wait(state_->recorded(), 0); }

Status HostEvent::synchronize(std::int64_t timeout_ms) {
  if (state_->wait(state_->recorded(), timeout_ms)) return {};
  return not_ready("the event's stream", timeout_ms);
}

HostStream::HostStream(Device& device) : device_(device) {
  const BlockedSignals blocked;
  thread_ = std::thread([this] { work(); });
  static_cast<void>(pthread_setname_np(thread_.native_handle(), "wreath-stream"));
}

HostStream::~HostStream() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status HostStream::add(Item item) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ && !item.always) return *failure_;
    items_.push_back(std::move(item));
  }
  changed_.notify_all();
  return {};
}

void HostStream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !items_.empty() || stop_; });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    const bool skipped = failure_ && !item.always;
    busy_ = true;
    lock.unlock();
    const Status done = skipped ? Status() : outcome_of(item.work, "host");
    item.work = nullptr;  // what it holds may learn from its end that it was skipped
    lock.lock();
    busy_ = false;
    if (!done && !failure_) failure_ = done.error();
    changed_.notify_all();
  }
}

Status HostStream::copy(void* target, const void* source, std::size_t bytes) {
  if (bytes == 0) return {};
  WREATH_TRY(check_copy(device_, target, source, bytes));
  return run([this, target, source, bytes] { return device_.copy(target, source, bytes); });
}

Status HostStream::run(std::function<Status()> work) {
  if (!work) return Error{ErrorCode::InvalidArgument, "host stream: work = null", -1};
  return add({std::move(work), false});
}

Status HostStream::record(Event& event) {
  HostEvent* const mine = own(event);
  if (mine == nullptr) return foreign();
  return add({[state = mine->state(), number = mine->state()->next()] {
                state->reach(number);
                return Status();
              },
              true});
}

Status HostStream::wait(Event& event) {
  HostEvent* const mine = own(event);
  if (mine == nullptr) return foreign();
  return run([state = mine->state(), number = mine->state()->recorded()] {
    state->wait(number, -1);
    return Status();
  });
}

bool HostStream::idle() const {
  const std::lock_guard lock(mutex_);
  return items_.empty() && !busy_;
}

Status HostStream::synchronize(std::int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  if (!wait_until(changed_, lock, timeout_ms, [&] { return items_.empty() && !busy_; })) {
    return not_ready("the stream", timeout_ms);
  }
  return failure_ ? Status(*failure_) : Status();
}

}  // namespace wreath
