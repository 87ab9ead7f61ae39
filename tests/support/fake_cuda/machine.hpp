// Holds the machine behind the fake libcuda.so.1: its memory is the host's, its streams are threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/device/cuda/abi.hpp"
#include "tests/support/fake_cuda.hpp"

namespace wreath::test {

constexpr int kDevices = 2;
constexpr std::size_t kDeviceBytes = std::size_t{1} << 30;
constexpr std::size_t kGrain = 65'536;

enum class Origin { Device, Pinned, Mapped, Ipc, Registered, RegisteredReadOnly };

struct Range {
  Origin origin;
  std::size_t bytes;
  int device;
  std::uint64_t id;
  // Mapped memory has a bit for each device whose kernels may use it.
  unsigned access = 0;
};

struct Allocation {
  int descriptor;
  std::size_t bytes;
  int device;
};

// A kernel has a function that stands for it, and the bytes of its parameter.
struct FakeFunction {
  void (*run)(unsigned blocks, unsigned threads, void** parameters);
  std::size_t bytes;
};

// Returns the kernels, by name, that modules have from the start.
std::map<std::string, FakeFunction> perf_kernels();

// Holds everything that is alive, behind one lock.
struct Machine {
  std::recursive_mutex mutex;
  std::map<std::uintptr_t, Range> ranges;
  std::map<CudaAllocation, Allocation> allocations;  // by handle
  std::map<std::uintptr_t, CudaAllocation> mapped;   // by address
  CudaAllocation next_allocation = 1;
  std::uint64_t next_range = 0;
  std::map<std::string, FakeFunction> kernels = perf_kernels();
  std::map<std::string, std::pair<int, int>> failures;  // by function: result, times
  // The attributes of devices, beside those that cuDeviceGetAttribute answers itself.
  std::map<int, int> attributes = {{91, 1}, {117, 1}, {124, 1}};
  std::atomic<int> lost{0};
  std::atomic<int> alive{0};
  std::atomic<int> pointers_asked{0};
  bool other_process = false;
  std::atomic<bool> program_captures{false};  // in CUDA's "global" mode
  // Counts the threads that add to streams without room.
  std::atomic<int> full{0};
  // A call that waits for all streams of a device holds the device's mutex.
  std::shared_mutex contexts[kDevices];
  std::mutex streams_mutex;
  std::set<class FakeStream*> streams;
  // Says whether the first device's context may use the second device's allocations.
  bool peers[kDevices][kDevices] = {};
};

inline Machine& machine() {
  static auto* const one = new Machine;
  return *one;
}

inline char the_contexts[kDevices];
inline thread_local std::vector<void*> current;

inline constexpr CudaResult kCaptureUnsupported = 900;
inline constexpr int kCaptureGlobal = 0;
inline constexpr int kUrgent = -5;
inline thread_local int capture_mode = kCaptureGlobal;

inline int current_device() {
  return current.empty() ? -1 : static_cast<int>(static_cast<char*>(current.back()) - the_contexts);
}

// Begins a call: waits while the context is busy, and refuses a call that would end the program's capture.
inline CudaResult enter_context() {
  if (const int device = current_device(); device >= 0) const std::shared_lock enter(machine().contexts[device]);
  return machine().program_captures && capture_mode != kCudaCaptureRelaxed ? kCaptureUnsupported : kCudaSuccess;
}

// Returns an error that the test asked for, or the error of a lost device. A call asks this before it does anything.
inline CudaResult asked_for(const char* function) {
  if (const CudaResult refused = enter_context(); refused != kCudaSuccess) return refused;
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  const auto found = all.failures.find(function);
  if (found != all.failures.end() && found->second.second > 0) {
    --found->second.second;
    return found->second.first;
  }
  return all.lost.load();
}

// Holds the work that capturing streams were given, in one order. The library itself checks whether all streams were
// joined.
struct FakeGraph {
  struct Item {
    enum class Kind { Work, Record, Wait } kind;
    std::size_t branch;
    std::function<void()> work;
    std::size_t point;
  };
  std::mutex mutex;
  std::vector<Item> items;
  std::size_t branches = 1;
  std::size_t points = 0;
  std::vector<class FakeStream*> joined;
};

// A stream takes so many items before its caller has to wait. A driver of CUDA 13.0 on an H200 took as many.
inline constexpr std::size_t kMostItems = 1020;

// Waits while a stream has no room, like each call that makes memory, streams or events. It waits for ever where the
// stream waits for its caller.
inline CudaResult asked_to_make(const char* function) {
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (machine().full > 0) {
    if (std::chrono::steady_clock::now() > late) {
      std::fprintf(stderr, "fake CUDA: %s waits for who adds to a stream without room: deadlock\n", function);
      std::abort();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return asked_for(function);
}

class FakeStream {
 public:
  FakeStream() : device_(std::max(current_device(), 0)), thread_([this] { work(); }) {
    const std::lock_guard lock(machine().streams_mutex);
    machine().streams.insert(this);
  }
  ~FakeStream() {
    {
      const std::lock_guard lock(machine().streams_mutex);
      machine().streams.erase(this);
    }
    if (capture != nullptr) std::erase(capture->joined, this);
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  int device() const { return device_; }
  void add(std::function<void()> item) {
    {
      std::unique_lock lock(mutex_);
      if (capture != nullptr) return keep({FakeGraph::Item::Kind::Work, branch, std::move(item), 0});
      if (items_.size() >= kMostItems) {
        ++machine().full;
        changed_.wait(lock, [&] { return items_.size() < kMostItems; });
        --machine().full;
      }
      items_.push_back(std::move(item));
    }
    changed_.notify_all();
  }
  CudaResult query() {
    if (const int lost = machine().lost) return lost;
    const std::lock_guard lock(mutex_);
    return items_.empty() && !busy_ ? kCudaSuccess : kCudaNotReady;
  }
  CudaResult synchronize() {
    if (capture != nullptr) return kCaptureUnsupported;
    std::unique_lock lock(mutex_);
    while (machine().lost == 0 && (!items_.empty() || busy_)) changed_.wait_for(lock, std::chrono::milliseconds(1));
    return machine().lost;
  }

  void keep(FakeGraph::Item item) {
    const std::lock_guard lock(capture->mutex);
    capture->items.push_back(std::move(item));
  }

  // Only the thread that captures uses these two, while the stream captures.
  std::shared_ptr<FakeGraph> capture;
  std::size_t branch = 0;

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stop_ || !items_.empty(); });
      if (items_.empty()) return;
      std::function<void()> item = std::move(items_.front());
      items_.pop_front();
      busy_ = true;
      lock.unlock();
      changed_.notify_all();
      if (machine().lost == 0) item();
      item = nullptr;
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> items_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

// Acts like a call that waits for all streams of the device, and blocks all other calls meanwhile. So a call that would
// end a stream's wait has to wait, too.
class Drain {
 public:
  // Waits for one stream, or for all with null.
  explicit Drain(const char* call, FakeStream* only = nullptr)
      : device_(std::max(current_device(), 0)), lock_(machine().contexts[device_]) {
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (only != nullptr ? only->query() == kCudaNotReady : !idle()) {
      if (std::chrono::steady_clock::now() > late) {
        std::fprintf(stderr, "fake CUDA: %s waits for a stream that waits for the host: deadlock\n", call);
        std::abort();
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  bool idle() const {
    const std::lock_guard lock(machine().streams_mutex);
    return std::all_of(machine().streams.begin(), machine().streams.end(), [&](FakeStream* stream) {
      return stream->device() != device_ || stream->query() != kCudaNotReady;
    });
  }
  int device_;
  std::unique_lock<std::shared_mutex> lock_;
};

inline FakeStream& stream_of(CudaHandle handle) {
  static auto* const usual = new FakeStream;
  return handle == nullptr ? *usual : *static_cast<FakeStream*>(handle);
}

}  // namespace wreath::test
