// Implements streams, events and kernels for the fake libcuda.so.1.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/support/fake_cuda/machine.hpp"

using namespace wreath;
using namespace wreath::test;

namespace {

struct Point {
  std::atomic<std::int64_t> ns{0};
  std::atomic<bool> reached{false};
};
struct FakeEvent {
  bool timed = false;
  std::weak_ptr<FakeGraph> capture;  // the one that it was recorded in
  std::size_t captured = 0;          // the point in that graph
  std::mutex mutex;
  std::shared_ptr<Point> point;  // null: never recorded
  std::shared_ptr<Point> now() {
    const std::lock_guard lock(mutex);
    return point;
  }
};

// Waits until `done()` holds or the device is lost.
template <typename Done>
void wait_until(Done done) {
  while (machine().lost == 0 && !done()) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

// Runs launches of a graph. Branches but the first are streams of the graph's own, and events are new points in each
// launch.
class FakeExecutable {
 public:
  explicit FakeExecutable(std::shared_ptr<FakeGraph> graph)
      : graph_(std::move(graph)), branches_(graph_->branches - 1) {
    for (auto& branch : branches_) branch = std::make_unique<FakeStream>();
  }
  void launch(FakeStream& first) {
    std::vector<std::shared_ptr<Point>> points(graph_->points);
    for (auto& point : points) point = std::make_shared<Point>();
    if (over_) first.add([over = over_] { wait_until([&] { return over->reached.load(); }); });
    for (const FakeGraph::Item& item : graph_->items) {
      FakeStream& stream = item.branch == 0 ? first : *branches_[item.branch - 1];
      if (item.kind == FakeGraph::Item::Kind::Work) {
        stream.add(item.work);
      } else if (item.kind == FakeGraph::Item::Kind::Record) {
        stream.add([point = points[item.point]] { point->reached = true; });
      } else {
        stream.add([point = points[item.point]] { wait_until([&] { return point->reached.load(); }); });
      }
    }
    over_ = std::make_shared<Point>();
    first.add([over = over_] { over->reached = true; });
  }

 private:
  std::shared_ptr<FakeGraph> graph_;
  std::vector<std::unique_ptr<FakeStream>> branches_;
  std::shared_ptr<Point> over_;  // end of the last launch
};

}  // namespace

extern "C" {

// ---- streams and events ----

CudaResult cuStreamCreate(CudaHandle* stream, unsigned flags) {
  if (current.empty()) return kCudaInvalidContext;
  if (const CudaResult result = asked_to_make("cuStreamCreate"); result != kCudaSuccess) return result;
  if (flags != kCudaStreamNonBlocking) return kCudaInvalidValue;
  *stream = new FakeStream;
  ++machine().alive;
  return kCudaSuccess;
}
// Makes streams of the two priorities that the library uses: its own streams are urgent.
CudaResult cuStreamCreateWithPriority(CudaHandle* stream, unsigned flags, int priority) {
  if (priority != 0 && priority != kUrgent) return kCudaInvalidValue;
  return cuStreamCreate(stream, flags);
}
CudaResult cuStreamDestroy(CudaHandle stream) {
  delete static_cast<FakeStream*>(stream);
  --machine().alive;
  return kCudaSuccess;
}
CudaResult cuStreamQuery(CudaHandle stream) {
  const CudaResult refused = enter_context();
  return refused == kCudaSuccess ? stream_of(stream).query() : refused;
}
CudaResult cuStreamSynchronize(CudaHandle stream) {
  const CudaResult refused = enter_context();
  return refused == kCudaSuccess ? stream_of(stream).synchronize() : refused;
}
CudaResult cuStreamWaitEvent(CudaHandle stream, CudaHandle event, unsigned) {
  if (const CudaResult result = asked_for("cuStreamWaitEvent"); result != kCudaSuccess) return result;
  auto* const waited = static_cast<FakeEvent*>(event);
  if (const auto graph = waited->capture.lock()) {
    FakeStream& own = stream_of(stream);
    if (own.capture == nullptr) {
      own.capture = graph;
      own.branch = graph->branches++;
      graph->joined.push_back(&own);
    }
    own.keep({FakeGraph::Item::Kind::Wait, own.branch, nullptr, waited->captured});
    return kCudaSuccess;
  }
  const auto point = waited->now();
  if (point) stream_of(stream).add([point] { wait_until([&] { return point->reached.load(); }); });
  return kCudaSuccess;
}
CudaResult cuStreamIsCapturing(CudaHandle stream, int* status) {
  *status = stream_of(stream).capture == nullptr ? 0 : 1;
  return asked_for("cuStreamIsCapturing");
}
CudaResult cuStreamWaitValue32(CudaHandle stream, CudaAddress address, std::uint32_t value, unsigned flags) {
  if (const CudaResult result = asked_for("cuStreamWaitValue32"); result != kCudaSuccess) return result;
  if (flags != kCudaWaitGreaterOrEqual) return kCudaInvalidValue;
  stream_of(stream).add([=] {
    const std::atomic_ref<std::uint32_t> word(*reinterpret_cast<std::uint32_t*>(address));
    wait_until([&] { return static_cast<std::int32_t>(word.load() - value) >= 0; });
  });
  return kCudaSuccess;
}
CudaResult cuStreamWriteValue32(CudaHandle stream, CudaAddress address, std::uint32_t value, unsigned) {
  if (const CudaResult result = asked_for("cuStreamWriteValue32"); result != kCudaSuccess) return result;
  stream_of(stream).add([=] { std::atomic_ref(*reinterpret_cast<std::uint32_t*>(address)).store(value); });
  return kCudaSuccess;
}
CudaResult cuEventCreate(CudaHandle* event, unsigned flags) {
  if (const CudaResult result = asked_to_make("cuEventCreate"); result != kCudaSuccess) return result;
  auto* const made = new FakeEvent;
  made->timed = flags == 0;
  *event = made;
  ++machine().alive;
  return kCudaSuccess;
}
CudaResult cuEventDestroy(CudaHandle event) {
  delete static_cast<FakeEvent*>(event);
  --machine().alive;
  return kCudaSuccess;
}
CudaResult cuEventRecord(CudaHandle event, CudaHandle stream) {
  if (const CudaResult result = asked_for("cuEventRecord"); result != kCudaSuccess) return result;
  auto* const recorded = static_cast<FakeEvent*>(event);
  if (FakeStream& own = stream_of(stream); own.capture != nullptr) {
    recorded->capture = own.capture;
    recorded->captured = own.capture->points++;
    own.keep({FakeGraph::Item::Kind::Record, own.branch, nullptr, recorded->captured});
    return kCudaSuccess;
  }
  recorded->capture.reset();
  const auto point = std::make_shared<Point>();
  {
    const std::lock_guard lock(recorded->mutex);
    recorded->point = point;
  }
  stream_of(stream).add([point] {
    point->ns = std::chrono::steady_clock::now().time_since_epoch().count();
    point->reached = true;
  });
  return kCudaSuccess;
}
CudaResult cuEventQuery(CudaHandle event) {
  if (const CudaResult refused = enter_context(); refused != kCudaSuccess) return refused;
  const auto point = static_cast<FakeEvent*>(event)->now();
  if (const int lost = machine().lost) return lost;
  return point == nullptr || point->reached ? kCudaSuccess : kCudaNotReady;
}
CudaResult cuEventSynchronize(CudaHandle event) {
  const auto point = static_cast<FakeEvent*>(event)->now();
  wait_until([&] { return point == nullptr || point->reached; });
  return machine().lost;
}

CudaResult cuEventElapsedTime(float* ms, CudaHandle from, CudaHandle to) {
  const auto* const first = static_cast<FakeEvent*>(from);
  const auto* const last = static_cast<FakeEvent*>(to);
  const auto begin = static_cast<FakeEvent*>(from)->now();
  const auto end = static_cast<FakeEvent*>(to)->now();
  if (!first->timed || !last->timed || begin == nullptr || end == nullptr) return kCudaInvalidHandle;
  if (!begin->reached || !end->reached) return kCudaNotReady;
  *ms = static_cast<float>(static_cast<double>(end->ns - begin->ns) / 1e6);
  return kCudaSuccess;
}

// ---- graphs ----

CudaResult cuStreamBeginCapture(CudaHandle stream, int mode) {
  if (const CudaResult result = asked_for("cuStreamBeginCapture"); result != kCudaSuccess) return result;
  if (mode != kCudaCaptureRelaxed || stream_of(stream).capture != nullptr) return kCudaInvalidValue;
  stream_of(stream).capture = std::make_shared<FakeGraph>();
  stream_of(stream).branch = 0;
  return kCudaSuccess;
}
CudaResult cuStreamEndCapture(CudaHandle stream, CudaHandle* graph) {
  auto* const captured = new std::shared_ptr<FakeGraph>(std::move(stream_of(stream).capture));
  for (FakeStream* joined : (*captured)->joined) joined->capture.reset();
  *graph = captured;
  ++machine().alive;
  return asked_for("cuStreamEndCapture");
}
CudaResult cuGraphDestroy(CudaHandle graph) {
  delete static_cast<std::shared_ptr<FakeGraph>*>(graph);
  --machine().alive;
  return kCudaSuccess;
}
CudaResult cuGraphInstantiateWithFlags(CudaHandle* executable, CudaHandle graph, unsigned long long) {
  if (const CudaResult result = asked_for("cuGraphInstantiateWithFlags"); result != kCudaSuccess) return result;
  *executable = new FakeExecutable(*static_cast<std::shared_ptr<FakeGraph>*>(graph));
  ++machine().alive;
  return kCudaSuccess;
}
CudaResult cuGraphLaunch(CudaHandle executable, CudaHandle stream) {
  if (const CudaResult result = asked_for("cuGraphLaunch"); result != kCudaSuccess) return result;
  static_cast<FakeExecutable*>(executable)->launch(stream_of(stream));
  return kCudaSuccess;
}
CudaResult cuGraphExecDestroy(CudaHandle executable) {
  delete static_cast<FakeExecutable*>(executable);
  --machine().alive;
  return kCudaSuccess;
}

// ---- kernels ----

CudaResult cuModuleLoadData(CudaHandle* module, const void* image) {
  if (const CudaResult result = asked_for("cuModuleLoadData"); result != kCudaSuccess) return result;
  const Drain drain("cuModuleLoadData");
  *module = const_cast<void*>(image);
  return kCudaSuccess;
}
CudaResult cuModuleUnload(CudaHandle) { return kCudaSuccess; }
CudaResult cuModuleGetFunction(CudaHandle* function, CudaHandle, const char* name) {
  const Drain drain("cuModuleGetFunction");  // the call may load the kernel
  const std::lock_guard lock(machine().mutex);
  const auto found = machine().kernels.find(name);
  if (found == machine().kernels.end()) return kCudaNotFound;
  *function = &found->second;
  return kCudaSuccess;
}
CudaResult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CudaHandle, int threads, std::size_t) {
  return *blocks = 2048 / threads, kCudaSuccess;
}
CudaResult cuLaunchKernel(CudaHandle function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned,
                          unsigned, unsigned, CudaHandle stream, void** parameters, void**) {
  if (const CudaResult result = asked_for("cuLaunchKernel"); result != kCudaSuccess) return result;
  const FakeFunction kernel = *static_cast<const FakeFunction*>(function);
  const auto copy = std::make_shared<std::vector<std::max_align_t>>(kernel.bytes / sizeof(std::max_align_t) + 1);
  std::memcpy(copy->data(), parameters[0], kernel.bytes);
  stream_of(stream).add([=] {
    void* values[] = {copy->data()};
    kernel.run(blocks, threads, values);
  });
  return kCudaSuccess;
}

CudaResult cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t, int* status) {
  static void* const self = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  *function = version < 12000 || asked_for(name) != kCudaSuccess ? nullptr : ::dlsym(self, name);
  *status = *function == nullptr ? 1 : 0;
  return *function == nullptr ? kCudaNotFound : kCudaSuccess;
}

}  // extern "C"
