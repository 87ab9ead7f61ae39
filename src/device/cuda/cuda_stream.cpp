// A CUDA stream gives the driver all that it is given in one order. While it captures, this goes into a graph of the
// driver's.
#include "src/device/cuda/cuda_stream.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
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
#include "src/device/cuda/cuda_graph.hpp"
#include "src/device/cuda/host_work.hpp"
#include "src/device/library_device.hpp"

namespace wreath {
namespace {

// Asks until the answer is no longer "not ready", or blocks in `wait` where there is no end (timeout_ms < 0). Returns
// NotReady when the time runs out first.
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
  if (captured_.any().capture != nullptr) return false;
  return with_context(context_, [&] { return context_.driver.event_query(handle_); }) != kCudaNotReady;
}

Status CudaEvent::synchronize(std::int64_t timeout_ms) {
  if (const CapturePart point = captured_.any(); point.capture != nullptr) {
    return point.capture->invalidate("synchronize() of an event that was recorded in it");
  }
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

Result<std::unique_ptr<CudaStream>> CudaStream::make(Device& device, const CudaContext& context, int priority) {
  const CurrentContext current(context);
  WREATH_TRY(context.check(current.result(), "cuCtxPushCurrent"));
  auto host = CudaHostWork::make(context);
  if (!host) return host.error();
  CudaHandle handle = nullptr;
  WREATH_TRY(context.check(context.driver.stream_create_with_priority(&handle, kCudaStreamNonBlocking, priority),
                           "cuStreamCreateWithPriority"));
  return std::unique_ptr<CudaStream>(new CudaStream(device, context, handle, *std::move(host)));
}

Result<std::unique_ptr<CudaStream>> CudaStream::use(Device& device, const CudaContext& context, CudaHandle handle) {
  auto host = CudaHostWork::make(context);
  if (!host) return host.error();
  auto last = CudaEvent::make(context, EventUse::Order);
  if (!last) return last.error();
  std::unique_ptr<CudaStream> stream(new CudaStream(device, context, handle, *std::move(host)));
  stream->last_ = *std::move(last);
  return stream;
}

CudaStream::CudaStream(Device& device, const CudaContext& context, CudaHandle handle,
                       std::shared_ptr<CudaHostWork> host)
    : device_(device), context_(context), handle_(handle), host_(std::move(host)) {}

// Leaves a stream of others, which may be gone. While the stream still holds work, the host's side of it is kept.
void CudaStream::leave() {
  constexpr std::int64_t kPatienceMs = 100;
  const Status over = last_->synchronize(kPatienceMs);
  if (!over) CudaHostWork::keep(std::move(host_));
}

CudaStream::~CudaStream() {
  if (last_ != nullptr) {
    leave();
    return;
  }
  const CapturePart in = part_.open();
  invalidate("one of its streams was destroyed");
  const CurrentContext current(context_);
  // A stream that captures cannot be waited for, so the capture ends first.
  if (in.capture != nullptr && in.at == 0) {
    CudaHandle graph = nullptr;
    context_.driver.stream_end_capture(handle_, &graph);
    if (graph != nullptr) context_.driver.graph_destroy(graph);
  }
  const Status over = context_.check(context_.driver.stream_synchronize(handle_), "cuStreamSynchronize");
  context_.driver.stream_destroy(handle_);
  if (over) return;
  host_->fail(over.error(), true);
  host_->stop();
  CudaHostWork::keep(std::move(host_));
}

// Only the driver knows of a capture that is the program's.
Status CudaStream::takes_calls() const {
  if (last_ == nullptr) return {};
  int status = kCudaNotCapturing;
  WREATH_TRY(
      context_.check(with_context(context_, [&] { return context_.driver.stream_is_capturing(handle_, &status); }),
                     "cuStreamIsCapturing"));
  if (status == kCudaNotCapturing) return {};
  return Error{ErrorCode::InvalidUsage,
               fmt::format("{}: the stream is captured into a graph that is not of this library", context_.name), -1};
}

Status CudaStream::give(const CudaCommand& command) {
  const auto turn = host_->turn();
  if (const auto failure = host_->failure()) return *failure;
  if (!capturing()) host_->pace();
  const Status added = context_.check(with_context(context_, [&] { return command.enqueue(handle_); }), command.call());
  // The work behind this command counts on it, so the stream fails.
  if (!added && !capturing()) host_->fail(added.error(), false);
  return added;
}

Status CudaStream::add(const std::shared_ptr<CudaCommand>& command) {
  const Status added = give(*command);
  const CapturePart in = part_.open();
  if (in.capture == nullptr) return added;
  return added ? in.capture->add(in.at, command) : in.capture->invalidate(added.error().message);
}

// A graph may call `add_work` again.
Status CudaStream::add_others(const std::function<Status(void* cuda_stream)>& add_work) {
  WREATH_TRY(takes_calls());
  const auto theirs = std::make_shared<Status>();
  const Status added = add(std::make_shared<CudaCommand>("work of another library", [theirs, add_work](CudaHandle to) {
    *theirs = add_work(to);
    return *theirs ? kCudaSuccess : kCudaLaunchFailed;
  }));
  return *theirs ? added : *theirs;
}

Status CudaStream::copy(void* target, const void* source, std::size_t bytes) {
  if (bytes == 0) return {};
  const auto ends = check_copy(device_, target, source, bytes);
  if (!ends) return ends.error();
  WREATH_TRY(takes_calls());
  const bool pageable = ends->target.kind == MemoryKind::Host || ends->source.kind == MemoryKind::Host;
  // The driver might admit no other call until the stream has come to this copy.
  if (pageable) {
    return run([&device = device_, target, source, bytes] { return device.copy(target, source, bytes); });
  }
  return add(std::make_shared<CudaCommand>(
      "cuMemcpyAsync", [&driver = context_.driver, to = reinterpret_cast<CudaAddress>(target),
                        from = reinterpret_cast<CudaAddress>(source),
                        bytes](CudaHandle stream) { return driver.memcpy_async(to, from, bytes, stream); }));
}

Status CudaStream::run(std::function<Status()> work) {
  if (!work) return Error{ErrorCode::InvalidArgument, fmt::format("{}: stream: work = null", context_.name), -1};
  if (capturing()) return capture(same_work(std::move(work)));
  WREATH_TRY(takes_calls());
  const auto turn = host_->turn();
  if (const auto failure = host_->failure()) return *failure;
  const auto number = host_->add(std::move(work));
  if (!number) return number.error();
  const CudaDriver& driver = context_.driver;
  const Status called = context_.check(
      with_context(context_, [&] { return driver.stream_write_value32(handle_, host_->word_of_stream(), *number, 0); }),
      "cuStreamWriteValue32");
  if (!called) {
    host_->withdraw();
    host_->fail(called.error(), false);
    return called;
  }
  const Status waits = context_.check(
      with_context(
          context_,
          [&] { return driver.stream_wait_value32(handle_, host_->word_of_host(), *number, kCudaWaitGreaterOrEqual); }),
      "cuStreamWaitValue32");
  // The work itself is in the queue by now, so the call succeeds.
  if (!waits) host_->fail(waits.error(), false);
  if (last_ != nullptr) {
    with_context(context_, [&] { return context_.driver.event_record(last_->handle(), handle_); });
  }
  return {};
}

Status CudaStream::record(Event& event) {
  auto* const mine = dynamic_cast<CudaEvent*>(&event);
  if (mine == nullptr || &mine->context() != &context_) return foreign(context_);
  const CapturePart in = part_.open();
  mine->captured().set(in.capture == nullptr ? CapturePart{} : CapturePart{in.capture, in.capture->record(in.at)});
  const auto turn = host_->turn();
  // The event is recorded after a failure, too, because others wait for it.
  return context_.check(with_context(context_, [&] { return context_.driver.event_record(mine->handle(), handle_); }),
                        "cuEventRecord");
}

Status CudaStream::wait(Event& event) {
  auto* const mine = dynamic_cast<CudaEvent*>(&event);
  if (mine == nullptr || &mine->context() != &context_) return foreign(context_);
  const CudaCommand command("cuStreamWaitEvent", [this, mine](CudaHandle stream) {
    return context_.driver.stream_wait_event(stream, mine->handle(), 0);
  });
  if (const CapturePart point = mine->captured().any(); point.capture != nullptr) {
    WREATH_TRY(wait_for_captured(part_, point, context_.name));
    // This is the driver's part. The capture's part is done.
    const Status added = give(command);
    return added ? Status() : part_.open().capture->invalidate(added.error().message);
  }
  if (const CapturePart in = part_.open(); in.capture != nullptr) {
    return in.capture->invalidate("one of its streams was to wait for an event recorded outside");
  }
  return give(command);
}

Status CudaStream::launch(CudaHandle function, const Grid& grid) {
  std::vector<std::max_align_t> argument(grid.bytes / sizeof(std::max_align_t) + 1);
  std::memcpy(argument.data(), grid.arguments, grid.bytes);
  return add(std::make_shared<CudaCommand>(
      "cuLaunchKernel", [&driver = context_.driver, function, argument = std::move(argument), blocks = grid.blocks,
                         threads = grid.threads](CudaHandle stream) mutable {
        void* arguments[] = {argument.data()};
        return driver.launch_kernel(function, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads), 1, 1,
                                    0, stream, arguments, nullptr);
      }));
}

// ---- captures ----

// Begins in the relaxed mode. Allocations for a captured call, and calls of other threads meanwhile, are not part of
// the capture and need not be. The other modes forbid them to this thread, or to all threads.
Status CudaStream::begin_capture() {
  if (const CapturePart in = part_.open(); in.capture != nullptr) {
    return in.capture->invalidate("begin_capture() of a stream that captures");
  }
  WREATH_TRY(give(CudaCommand("cuStreamBeginCapture", [this](CudaHandle stream) {
    return context_.driver.stream_begin_capture(stream, kCudaCaptureRelaxed);
  })));
  part_.set({std::make_shared<Capture>(context_.name), 0});
  return {};
}

Result<std::unique_ptr<Graph>> CudaStream::end_capture() {
  const CapturePart in = part_.open();
  if (in.capture == nullptr) {
    return Error{ErrorCode::InvalidUsage,
                 fmt::format("{} stream: end_capture: the stream does not capture", context_.name), -1};
  }
  auto captured = in.capture->end(in.at);
  if (in.at != 0) return captured.error();
  CudaHandle graph = nullptr;
  const Status ended =
      context_.check(with_context(context_, [&] { return context_.driver.stream_end_capture(handle_, &graph); }),
                     "cuStreamEndCapture");
  if (!captured || !ended) {
    if (graph != nullptr) context_.driver.graph_destroy(graph);
    return captured ? ended.error() : captured.error();
  }
  return make_cuda_graph(device_, context_, graph, *std::move(captured));
}

Status CudaStream::capture(std::shared_ptr<GraphWork> work) {
  const CapturePart in = part_.open();
  if (in.capture == nullptr) {
    return Error{ErrorCode::InvalidUsage, fmt::format("{} stream: it captures no more", context_.name), -1};
  }
  return in.capture->add(in.at, std::move(work));
}

void CudaStream::invalidate(const std::string& reason) {
  if (const CapturePart in = part_.open(); in.capture != nullptr) static_cast<void>(in.capture->invalidate(reason));
}

StreamFailures& CudaStream::failures() { return host_->failures(); }

bool CudaStream::idle() const {
  if (const CapturePart in = part_.open(); in.capture != nullptr) {
    static_cast<void>(in.capture->invalidate("idle() of one of its streams"));
    return false;
  }
  return with_context(context_, [&] { return context_.driver.stream_query(handle_); }) != kCudaNotReady;
}

Status CudaStream::synchronize(std::int64_t timeout_ms) {
  if (const CapturePart in = part_.open(); in.capture != nullptr) {
    return in.capture->invalidate("synchronize() of one of its streams");
  }
  const Status over = wait_for(
      context_, "the stream", timeout_ms, [&] { return context_.driver.stream_query(handle_); },
      [&] { return context_.driver.stream_synchronize(handle_); });
  if (!over && over.error().code == ErrorCode::NotReady) return over;
  if (!over) host_->fail(over.error(), true);
  const auto failure = host_->failure();
  return failure ? Status(*failure) : Status();
}

}  // namespace wreath
