// Host work is handed from the driver's callback to the stream's thread; the stream waits for a word in pinned memory.
#include "src/device/cuda/cuda_stream.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/memory_order.hpp"
#include "src/base/signals.hpp"
#include "src/device/check_copy.hpp"

namespace wreath {
namespace {

// Asks until the answer is no longer "not ready", or blocks in `wait` where there is no end (timeout_ms < 0). NotReady
// when the time runs out first.
template <typename Query, typename Wait>
Status wait_for(const CudaContext& context, std::string_view what, std::int64_t timeout_ms, Query query, Wait wait) {
  constexpr std::int64_t kLongestNapNs = 1'000'000;
  const CurrentContext current(context);
  WREATH_TRY(context.check(current.result(), "cuCtxPushCurrent"));
  if (timeout_ms < 0 || timeout_ms > kLongestMs) return context.check(wait(), what);
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  for (std::int64_t nap_ns = 2'000;; nap_ns = std::min(2 * nap_ns, kLongestNapNs)) {
    const CudaResult result = query();
    if (result != kCudaNotReady) return context.check(result, what);
    if (deadline.passed()) {
      return Error{ErrorCode::NotReady,
                   fmt::format("{}: {} is still busy after {} ms", context.name, what, timeout_ms)};
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(nap_ns));
  }
}

Error foreign(const CudaContext& context) {
  return {ErrorCode::InvalidArgument, fmt::format("{}: stream: the event belongs to another device", context.name)};
}

}  // namespace

// ---- host work ----

// Item i is begun by callback i and ends by `*word_` becoming i, for which the stream waits.
class CudaHostWork {
 public:
  CudaHostWork(const CudaContext& context, std::uint32_t* word) : context_(context), word_(word) {}
  ~CudaHostWork() {
    stop();
    with_context(context_, [&] { return context_.driver.mem_free_host(word_); });
  }
  CudaHostWork(const CudaHostWork&) = delete;
  CudaHostWork& operator=(const CudaHostWork&) = delete;

  // Held over what is added to the stream, so that items and callbacks have one order.
  std::unique_lock<std::mutex> turn() { return std::unique_lock(turn_); }

  std::optional<Error> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  // The first failure stays. Items of a device that does nothing any more are dropped.
  void fail(const Error& error, bool drops) {
    std::deque<std::function<Status()>> dropped;
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = error;
    if (drops) dropped.swap(items_);
  }

  // The caller has the turn. Returns the word's value at its end, or an error where there is no thread for it.
  Result<std::uint32_t> add(std::function<Status()> work);
  // Takes back the last one, whose callback does not come.
  void withdraw() {
    std::function<Status()> item;
    const std::lock_guard lock(mutex_);
    item.swap(items_.back());
    items_.pop_back();
    --added_;
  }
  static void arrive(void* self) { static_cast<CudaHostWork*>(self)->arrived(); }
  CudaAddress word() const { return reinterpret_cast<CudaAddress>(word_); }
  // Ends the thread; items that have not begun stay undone.
  void stop();

 private:
  void arrived() {
    {
      const std::lock_guard lock(mutex_);
      ++arrived_;
    }
    changed_.notify_all();
  }
  void work();

  const CudaContext& context_;
  std::uint32_t* word_;
  std::mutex turn_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<Status()>> items_;
  std::uint32_t added_ = 0;
  std::uint32_t arrived_ = 0;
  std::uint32_t done_ = 0;
  std::optional<Error> failure_;
  bool stop_ = false;
  std::thread thread_;
};

Result<std::uint32_t> CudaHostWork::add(std::function<Status()> work) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    try {
      const BlockedSignals blocked;
      thread_ = std::thread([this] { this->work(); });
      static_cast<void>(pthread_setname_np(thread_.native_handle(), "wreath-stream"));
    } catch (const std::system_error& refused) {
      return Error{ErrorCode::System,
                   fmt::format("{}: cannot start a stream's thread: {}", context_.name, refused.what())};
    }
  }
  items_.push_back(std::move(work));
  return ++added_;
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
    lock.lock();
    if (!outcome && !failure_) failure_ = outcome.error();
    store_release(*word_, ++done_);
  }
}

void CudaHostWork::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// ---- events ----

Result<std::unique_ptr<CudaEvent>> CudaEvent::make(const CudaContext& context, EventUse use) {
  CudaHandle handle = nullptr;
  WREATH_TRY(context.check(with_context(context,
                                        [&] {
                                          return context.driver.event_create(
                                              &handle, use == EventUse::Timing ? 0 : kCudaEventDisableTiming);
                                        }),
                           "cuEventCreate"));
  return std::unique_ptr<CudaEvent>(new CudaEvent(context, handle));
}

CudaEvent::~CudaEvent() {
  with_context(context_, [&] { return context_.driver.event_destroy(handle_); });
}

bool CudaEvent::done() const {
  return with_context(context_, [&] { return context_.driver.event_query(handle_); }) != kCudaNotReady;
}

Status CudaEvent::synchronize(std::int64_t timeout_ms) {
  return wait_for(
      context_, "the event's stream", timeout_ms, [&] { return context_.driver.event_query(handle_); },
      [&] { return context_.driver.event_synchronize(handle_); });
}

Result<std::int64_t> CudaEvent::ns_since(const Event& earlier) const {
  const auto* const mine = dynamic_cast<const CudaEvent*>(&earlier);
  if (mine == nullptr || &mine->context_ != &context_) return foreign(context_);
  float elapsed_ms = 0;
  const CudaResult result =
      with_context(context_, [&] { return context_.driver.event_elapsed_time(&elapsed_ms, mine->handle_, handle_); });
  if (result == kCudaInvalidHandle) {
    return Error{
        ErrorCode::InvalidUsage,
        fmt::format("{}: ns_since: an event was not recorded, or not made for EventUse::Timing", context_.name), -1};
  }
  if (result == kCudaNotReady) {
    return Error{ErrorCode::NotReady, fmt::format("{}: the event's stream is still busy", context_.name)};
  }
  WREATH_TRY(context_.check(result, "cuEventElapsedTime"));
  return static_cast<std::int64_t>(static_cast<double>(elapsed_ms) * 1e6);
}

// ---- the stream ----

Result<std::unique_ptr<CudaStream>> CudaStream::make(Device& device, const CudaContext& context) {
  const CurrentContext current(context);
  WREATH_TRY(context.check(current.result(), "cuCtxPushCurrent"));
  void* word = nullptr;
  WREATH_TRY(
      context.check(context.driver.mem_host_alloc(&word, sizeof(std::uint32_t), kCudaHostPortable | kCudaHostDeviceMap),
                    "cuMemHostAlloc"));
  *static_cast<std::uint32_t*>(word) = 0;
  auto host = std::make_unique<CudaHostWork>(context, static_cast<std::uint32_t*>(word));
  CudaHandle handle = nullptr;
  WREATH_TRY(context.check(context.driver.stream_create(&handle, kCudaStreamNonBlocking), "cuStreamCreate"));
  return std::unique_ptr<CudaStream>(new CudaStream(device, context, handle, std::move(host)));
}

CudaStream::CudaStream(Device& device, const CudaContext& context, CudaHandle handle,
                       std::unique_ptr<CudaHostWork> host)
    : device_(device), context_(context), handle_(handle), host_(std::move(host)) {}

CudaStream::~CudaStream() {
  const CurrentContext current(context_);
  const Status over = context_.check(context_.driver.stream_synchronize(handle_), "cuStreamSynchronize");
  context_.driver.stream_destroy(handle_);
  if (over) return;
  // The driver may still call back with what a lost device had: kept for it as long as the process lives.
  static auto* const kept = new std::pair<std::mutex, std::vector<std::unique_ptr<CudaHostWork>>>;  // NOLINT
  host_->fail(over.error(), true);
  host_->stop();
  const std::lock_guard lock(kept->first);
  kept->second.push_back(std::move(host_));
}

template <typename Enqueue>
Status CudaStream::add(std::string_view call, Enqueue enqueue) {
  const auto turn = host_->turn();
  if (const auto failure = host_->failure()) return *failure;
  const Status added = context_.check(with_context(context_, enqueue), call);
  if (!added) host_->fail(added.error(), false);  // what stands behind it counts on it
  return added;
}

Status CudaStream::copy(void* target, const void* source, std::size_t bytes) {
  if (bytes == 0) return {};
  WREATH_TRY(check_copy(device_, target, source, bytes));
  return add("cuMemcpyAsync", [&] {
    return context_.driver.memcpy_async(reinterpret_cast<CudaAddress>(target), reinterpret_cast<CudaAddress>(source),
                                        bytes, handle_);
  });
}

Status CudaStream::run(std::function<Status()> work) {
  if (!work) return Error{ErrorCode::InvalidArgument, fmt::format("{}: stream: work = null", context_.name), -1};
  const auto turn = host_->turn();
  if (const auto failure = host_->failure()) return *failure;
  const auto number = host_->add(std::move(work));
  if (!number) return number.error();
  const Status called = context_.check(
      with_context(context_,
                   [&] { return context_.driver.launch_host_func(handle_, &CudaHostWork::arrive, host_.get()); }),
      "cuLaunchHostFunc");
  if (!called) {
    host_->withdraw();
    host_->fail(called.error(), false);
    return called;
  }
  const Status waits = context_.check(with_context(context_,
                                                   [&] {
                                                     return context_.driver.stream_wait_value32(
                                                         handle_, host_->word(), *number, kCudaWaitGreaterOrEqual);
                                                   }),
                                      "cuStreamWaitValue32");
  if (!waits) host_->fail(waits.error(), false);  // the work itself is taken
  return {};
}

Status CudaStream::record(Event& event) {
  auto* const mine = dynamic_cast<CudaEvent*>(&event);
  if (mine == nullptr || &mine->context() != &context_) return foreign(context_);
  const auto turn = host_->turn();  // after a failure, too: others wait for it
  return context_.check(with_context(context_, [&] { return context_.driver.event_record(mine->handle(), handle_); }),
                        "cuEventRecord");
}

Status CudaStream::wait(Event& event) {
  auto* const mine = dynamic_cast<CudaEvent*>(&event);
  if (mine == nullptr || &mine->context() != &context_) return foreign(context_);
  return add("cuStreamWaitEvent", [&] { return context_.driver.stream_wait_event(handle_, mine->handle(), 0); });
}

Status CudaStream::launch(CudaHandle function, const Grid& grid) {
  void* arguments[] = {const_cast<void*>(grid.arguments)};
  return add("cuLaunchKernel", [&] {
    return context_.driver.launch_kernel(function, static_cast<unsigned>(grid.blocks), 1, 1,
                                         static_cast<unsigned>(grid.threads), 1, 1, 0, handle_, arguments, nullptr);
  });
}

Status CudaStream::begin_capture() {
  return Error{ErrorCode::Unavailable, fmt::format("{}: its streams cannot capture yet", context_.name), -1};
}
Result<std::unique_ptr<Graph>> CudaStream::end_capture() {
  return Error{ErrorCode::InvalidUsage, fmt::format("{}: end_capture: the stream does not capture", context_.name), -1};
}
Status CudaStream::capture(std::shared_ptr<GraphWork>) { return begin_capture(); }
void CudaStream::invalidate(const std::string&) {}

bool CudaStream::idle() const {
  return with_context(context_, [&] { return context_.driver.stream_query(handle_); }) != kCudaNotReady;
}

Status CudaStream::synchronize(std::int64_t timeout_ms) {
  const Status over = wait_for(
      context_, "the stream", timeout_ms, [&] { return context_.driver.stream_query(handle_); },
      [&] { return context_.driver.stream_synchronize(handle_); });
  if (!over && over.error().code == ErrorCode::NotReady) return over;
  if (!over) host_->fail(over.error(), true);
  const auto failure = host_->failure();
  return failure ? Status(*failure) : Status();
}

}  // namespace wreath
