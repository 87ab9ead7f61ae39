// The thread begins an item when its callback has come, and tells the stream when it is over.
#include "src/device/cuda/host_work.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <system_error>
#include <utility>
#include <vector>

#include "src/base/memory_order.hpp"
#include "src/base/signals.hpp"
#include "src/device/check_copy.hpp"

namespace wreath {

Result<std::unique_ptr<CudaHostWork>> CudaHostWork::make(const CudaContext& context) {
  auto word = context.words->take();
  if (!word) return word.error();
  return std::unique_ptr<CudaHostWork>(new CudaHostWork(context, *word));
}

Result<std::uint32_t> CudaHostWork::add(std::function<Status()> work) {
  constexpr std::uint32_t kMostAhead = 32;  // a driver of CUDA 13.0 took 55
  WREATH_TRY(start());
  {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return added_ - done_ < kMostAhead || failure_; });
  }
  StreamWaits::of_process().begin();
  const std::lock_guard lock(mutex_);
  items_.push_back(std::move(work));
  return ++added_;
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

void CudaHostWork::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || (arrived_ != done_ && !items_.empty()); });
    if (stop_) return;
    std::function<Status()> item = std::move(items_.front());
    items_.pop_front();
    const bool skipped = failure_.has_value();
    lock.unlock();
    const Status outcome = skipped ? Status() : outcome_of(item, context_.name);
    item = nullptr;  // what it holds may learn from its end that it was skipped
    if (!outcome) fail(outcome.error(), false);
    lock.lock();
    ++done_;
    store_release(*word_, done_);
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
