// The stream's thread takes one item of work at a time.
#include "src/device/host_stream.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <chrono>
#include <iterator>

#include "src/base/clock.hpp"
#include "src/base/signals.hpp"
#include "src/device/check_copy.hpp"
#include "src/device/host_graph.hpp"

namespace wreath {
namespace {

// Waits on `changed` until `ready()` holds, for at most `timeout_ms`. A time that is negative, or longer than clocks
// count, sets no limit. Returns false when the time runs out.
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

// Returns null for an event of another device.
HostEvent* own(Event& event) { return dynamic_cast<HostEvent*>(&event); }

Error misused(const char* text) { return {ErrorCode::InvalidUsage, text, -1}; }

Error foreign() { return {ErrorCode::InvalidArgument, "host stream: the event belongs to another device"}; }

}  // namespace

std::uint64_t HostEventState::next() {
  const std::lock_guard lock(mutex_);
  captured_.set({});
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
  passed_ns_ = now_ns();
  reached_.notify_all();
}

Result<std::int64_t> HostEventState::reached_ns() const {
  const std::lock_guard lock(mutex_);
  if (recorded_ == 0 || captured_.any().capture != nullptr)
    return misused("ns_since: an event was not recorded in a stream");
  if (ahead_.contains(recorded_)) return not_ready("the event's stream", 0);
  return passed_ns_;
}

bool HostEventState::wait(std::uint64_t number, std::int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  return wait_until(reached_, lock, timeout_ms, [&] { return !ahead_.contains(number); });
}

bool HostEvent::done() const {
  return state_->captured().any().capture == nullptr && state_->wait(state_->recorded(), 0);
}

Result<std::int64_t> HostEvent::passed_ns() const {
  if (use_ != EventUse::Timing) return misused("ns_since: an event was not made for EventUse::Timing");
  return state_->reached_ns();
}

Result<std::int64_t> HostEvent::ns_since(const Event& earlier) const {
  const auto* const mine = dynamic_cast<const HostEvent*>(&earlier);
  if (mine == nullptr) return foreign();
  const auto from = mine->passed_ns();
  if (!from) return from.error();
  const auto to = passed_ns();
  if (!to) return to.error();
  return *to - *from;
}

Status HostEvent::synchronize(std::int64_t timeout_ms) {
  if (const auto captured = state_->captured().any(); captured.capture != nullptr) {
    return captured.capture->invalidate("synchronize() of an event that was recorded in it");
  }
  if (state_->wait(state_->recorded(), timeout_ms)) return {};
  return not_ready("the event's stream", timeout_ms);
}

HostStream::HostStream(Device& device) : device_(device) {
  const BlockedSignals blocked;
  thread_ = std::thread([this] { work(); });
  static_cast<void>(pthread_setname_np(thread_.native_handle(), "wreath-stream"));
}

HostStream::~HostStream() {
  invalidate("one of its streams was destroyed");
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

void HostStream::give(std::vector<Item> items) {
  {
    const std::lock_guard lock(mutex_);
    items_.insert(items_.end(), std::make_move_iterator(items.begin()), std::make_move_iterator(items.end()));
  }
  changed_.notify_all();
}

void HostStream::give(Item item) {
  {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
  }
  changed_.notify_all();
}

Status HostStream::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_ ? Status(*failure_) : Status();
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
    // Objects that the work holds may learn from their end that the work was skipped.
    item.work = nullptr;
    lock.lock();
    // The failure is stored before listeners hear of it. From here on the stream refuses new kernels.
    if (!done && !failure_) failure_ = done.error();
    if (!done) {
      lock.unlock();
      failures_.tell(done.error());
      lock.lock();
    }
    busy_ = false;
    changed_.notify_all();
  }
}

Status HostStream::copy(void* target, const void* source, std::size_t bytes) {
  if (bytes == 0) return {};
  WREATH_TRY(check_copy(device_, target, source, bytes));
  return run([&device = device_, target, source, bytes] { return device.copy(target, source, bytes); });
}

Status HostStream::run(std::function<Status()> work) {
  if (!work) return Error{ErrorCode::InvalidArgument, "host stream: work = null", -1};
  if (capturing()) return capture(same_work(std::move(work)));
  return add({std::move(work), false});
}

Status HostStream::record(Event& event) {
  HostEvent* const mine = own(event);
  if (mine == nullptr) return foreign();
  if (const CapturePart in = part_.open(); in.capture != nullptr) {
    mine->state()->captured().set({in.capture, in.capture->record(in.at)});
    return {};
  }
  return add({[state = mine->state(), number = mine->state()->next()] {
                state->reach(number);
                return Status();
              },
              true});
}

Status HostStream::wait(Event& event) {
  HostEvent* const mine = own(event);
  if (mine == nullptr) return foreign();
  if (const CapturePart point = mine->state()->captured().any(); point.capture != nullptr) {
    return wait_for_captured(part_, point, "host");
  }
  if (mine->state()->recorded() == 0) return {};
  if (const CapturePart in = part_.open(); in.capture != nullptr) {
    return in.capture->invalidate("one of its streams was to wait for an event recorded outside");
  }
  return run([state = mine->state(), number = mine->state()->recorded()] {
    state->wait(number, -1);
    return Status();
  });
}

// ---- captures ----

Status HostStream::begin_capture() {
  WREATH_TRY(failure());
  if (const CapturePart in = part_.open(); in.capture != nullptr) {
    return in.capture->invalidate("begin_capture() of a stream that captures");
  }
  part_.set({std::make_shared<Capture>("host"), 0});
  return {};
}

Result<std::unique_ptr<Graph>> HostStream::end_capture() {
  const CapturePart in = part_.open();
  if (in.capture == nullptr) return misused("host stream: end_capture: the stream does not capture");
  auto captured = in.capture->end(in.at);
  if (!captured) return captured.error();
  return make_host_graph(device_, *std::move(captured));
}

Status HostStream::capture(std::shared_ptr<GraphWork> work) {
  const CapturePart in = part_.open();
  if (in.capture == nullptr) return misused("host stream: it captures no more");
  return in.capture->add(in.at, std::move(work));
}

void HostStream::invalidate(const std::string& reason) {
  if (const CapturePart in = part_.open(); in.capture != nullptr) static_cast<void>(in.capture->invalidate(reason));
}

bool HostStream::idle() const {
  if (const CapturePart in = part_.open(); in.capture != nullptr) {
    static_cast<void>(in.capture->invalidate("idle() of one of its streams"));
    return false;
  }
  const std::lock_guard lock(mutex_);
  return items_.empty() && !busy_;
}

Status HostStream::synchronize(std::int64_t timeout_ms) {
  if (const CapturePart in = part_.open(); in.capture != nullptr) {
    return in.capture->invalidate("synchronize() of one of its streams");
  }
  std::unique_lock lock(mutex_);
  if (!wait_until(changed_, lock, timeout_ms, [&] { return items_.empty() && !busy_; })) {
    return not_ready("the stream", timeout_ms);
  }
  return failure_ ? Status(*failure_) : Status();
}

}  // namespace wreath
