// Streams, events and kernels: of the driver that stands for libcuda.so.1.
#include <dlfcn.h>

#include <cstddef>
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
  std::mutex mutex;
  std::shared_ptr<Point> point;  // null: never recorded
  std::shared_ptr<Point> now() {
    const std::lock_guard lock(mutex);
    return point;
  }
};

// Until `done()`, or the device is lost.
template <typename Done>
void wait_until(Done done) {
  while (machine().lost == 0 && !done()) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

}  // namespace

extern "C" {

// ---- streams and events ----

CudaResult cuStreamCreate(CudaHandle* stream, unsigned flags) {
  if (current.empty()) return kCudaInvalidContext;
  if (const CudaResult result = asked_for("cuStreamCreate"); result != kCudaSuccess) return result;
  if (flags != kCudaStreamNonBlocking) return kCudaInvalidValue;
  *stream = new FakeStream;
  ++machine().alive;
  return kCudaSuccess;
}
CudaResult cuStreamDestroy(CudaHandle stream) {
  delete static_cast<FakeStream*>(stream);
  --machine().alive;
  return kCudaSuccess;
}
CudaResult cuStreamQuery(CudaHandle stream) { return stream_of(stream).query(); }
CudaResult cuStreamSynchronize(CudaHandle stream) { return stream_of(stream).synchronize(); }
CudaResult cuStreamWaitEvent(CudaHandle stream, CudaHandle event, unsigned) {
  if (const CudaResult result = asked_for("cuStreamWaitEvent"); result != kCudaSuccess) return result;
  const auto point = static_cast<FakeEvent*>(event)->now();
  if (point) stream_of(stream).add([point] { wait_until([&] { return point->reached.load(); }); });
  return kCudaSuccess;
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
CudaResult cuStreamWriteValue64(CudaHandle stream, CudaAddress address, std::uint64_t value, unsigned) {
  if (const CudaResult result = asked_for("cuStreamWriteValue64"); result != kCudaSuccess) return result;
  stream_of(stream).add([=] { std::atomic_ref(*reinterpret_cast<std::uint64_t*>(address)).store(value); });
  return kCudaSuccess;
}
// All streams share the driver's one thread for these, as the real one may.
CudaResult cuLaunchHostFunc(CudaHandle stream, CudaHostFunction function, void* data) {
  if (const CudaResult result = asked_for("cuLaunchHostFunc"); result != kCudaSuccess) return result;
  static std::mutex one;
  stream_of(stream).add([=] {
    const std::lock_guard lock(one);
    function(data);
  });
  return kCudaSuccess;
}
CudaResult cuEventCreate(CudaHandle* event, unsigned flags) {
  if (const CudaResult result = asked_for("cuEventCreate"); result != kCudaSuccess) return result;
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

// ---- kernels ----

CudaResult cuModuleLoadData(CudaHandle* module, const void* image) {
  if (const CudaResult result = asked_for("cuModuleLoadData"); result != kCudaSuccess) return result;
  *module = const_cast<void*>(image);
  return kCudaSuccess;
}
CudaResult cuModuleUnload(CudaHandle) { return kCudaSuccess; }
CudaResult cuModuleGetFunction(CudaHandle* function, CudaHandle, const char* name) {
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
