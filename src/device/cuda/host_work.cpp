// The thread begins an item when its stream has come to that item, and tells the stream when the item is over.
#include "src/device/cuda/host_work.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/base/memory_order.hpp"
#include "src/base/signals.hpp"
#include "src/device/check_copy.hpp"

namespace wreath {
namespace {

// The number of the driver's streams that this process uses here.
std::atomic<int> streams_in_use = 0;

// Warns once where streams outnumber the hardware's queues, which the variable that CUDA reads sets. Streams may share
// a queue, and the first in it may wait for the host. Then the others wait, too, whatever work they have.
void warn_of_queues() {
  static const std::int64_t queues = [] {
    constexpr std::int64_t kUsual = 8;
    const auto asked = setting_integer(Setting::CudaQueues);
    return asked ? *asked : kUsual;
  }();
  static std::atomic<bool> said = false;
  const int streams = streams_in_use + 1;  // one more for copies
  if (streams <= queues || said.exchange(true)) return;
  log_warning(
      "{} CUDA streams of this process take part in calls, and CUDA has {} queues for them: work in one may stand "
      "behind another that waits for it (CUDA_DEVICE_MAX_CONNECTIONS, 32 at most)",
      streams, queues);
}

}  // namespace

Result<std::unique_ptr<CudaHostWork>> CudaHostWork::make(const CudaContext& context) {
  auto words = context.words->take();
  if (!words) return words.error();
  ++streams_in_use;
  return std::unique_ptr<CudaHostWork>(new CudaHostWork(context, *words));
}

CudaHostWork::~CudaHostWork() {
  stop();
  drop(items_.size());
  --streams_in_use;
  context_.words->give(words_);
}

void CudaHostWork::withdraw() {
  Item item{};
  {
    const std::lock_guard lock(mutex_);
    std::swap(item, items_.back());
    items_.pop_back();
    --added_;
  }
  drop(1);
}

Result<std::uint32_t> CudaHostWork::add(std::function<Status()> work) {
  WREATH_TRY(start());
  pace();
  StreamWaits::of_process().begin();
  const std::lock_guard lock(mutex_);
  warn_of_queues();
  items_.push_back({std::move(work), commands_});
  changed_.notify_all();
  return ++added_;
}

void CudaHostWork::pace() {
  // The driver of CUDA 13.0 took 1020 commands behind a stream that waited.
  constexpr std::uint64_t kMostBehind = 512;
  std::unique_lock lock(mutex_);
  room_.wait(lock, [&] { return added_ == done_ || commands_ - passed_ < kMostBehind || failure_; });
  ++commands_;
  if (added_ == done_) passed_ = commands_;
}

Status CudaHostWork::start() {
  const std::lock_guard lock(mutex_);
  if (thread_.joinable()) return {};
  try {
    const BlockedSignals blocked;
    thread_ = std::thread([this] { this->work(); });
    static_cast<void>(pthread_setname_np(thread_.native_handle(), "wreath-stream"));
  } catch (const std::system_error& refused) {
    return Error{ErrorCode::System,
                 fmt::format("{}: cannot start a stream's thread: {}", context_.name, refused.what())};
  }
  return {};
}

// Looks seldom during a long wait. A look comes late by at most an eighth of the time waited, and by at most 200 us.
bool CudaHostWork::await_stream(std::unique_lock<std::mutex>& lock) {
  constexpr auto kSpin = std::chrono::microseconds(20);
  constexpr std::chrono::nanoseconds kLongestNap = std::chrono::microseconds(200);
  const auto come = [&] { return static_cast<std::int32_t>(load_acquire(words_[0]) - (done_ + 1)) >= 0; };
  const auto began = std::chrono::steady_clock::now();
  while (!come()) {
    const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - began;
    if (waited < kSpin) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    } else {
      changed_.wait_for(lock, std::min(waited / 8, kLongestNap), [&] { return stop_ || items_.empty(); });
    }
    if (stop_ || items_.empty()) return false;
  }
  return true;
}

void CudaHostWork::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !items_.empty(); });
    if (stop_) return;
    if (!await_stream(lock)) continue;
    Item item = std::move(items_.front());
    items_.pop_front();
    const bool skipped = failure_.has_value();
    lock.unlock();
    const Status outcome = skipped ? Status() : outcome_of(item.work, context_.name);
    // Objects that the work holds may learn from their end that the work was skipped.
    item.work = nullptr;
    if (!outcome) fail(outcome.error(), false);
    lock.lock();
    ++done_;
    passed_ = std::max(passed_, item.commands);
    store_release(words_[1], done_);
    lock.unlock();
    room_.notify_all();
    drop(1);
    lock.lock();
  }
}

void CudaHostWork::keep(std::shared_ptr<void> work) {
  static auto* const kept = new std::pair<std::mutex, std::vector<std::shared_ptr<void>>>;  // NOLINT
  const std::lock_guard lock(kept->first);
  kept->second.push_back(std::move(work));
}

void CudaHostWork::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace wreath
