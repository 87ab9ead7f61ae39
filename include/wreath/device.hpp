// A device is a processor with memory of its own. It has streams of work in order, events between them, and memory that
// only it may touch.
//
// Collectives take device memory like any other. A call with a stream (Call::stream) begins once the stream's earlier
// work is over, and the stream's later work begins once the call is over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "wreath/result.hpp"

namespace wreath {

class Device;
class Stream;

enum class MemoryUse : std::uint8_t {
  Plain,  // memory of the device
  // The memory is the host's. The device reads and writes it, too, and it is copied without waiting.
  Pinned,
  // The memory is the device's, and other processes can map it.
  Exportable,
};

// Owns memory of a device, or pinned memory, aligned to 256 bytes at least and zero-filled. The address of a device's
// memory is for Device, Stream and Communicator calls only; the host may not read or write it. The destructor frees the
// memory, which no work in flight may be using then.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Device& device, std::byte* data, std::size_t bytes) : device_(&device), data_(data), bytes_(bytes) {}
  DeviceMemory(DeviceMemory&& other) noexcept
      : device_(other.device_), data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory();
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// A point in a stream. An event that is recorded again means the later point. It may outlive the streams that used it.
class Event {
 public:
  virtual ~Event() = default;
  // Returns whether the work before the last record() is over. Returns true if the event was never recorded.
  virtual bool done() const = 0;
  // Waits for that work. timeout_ms < 0 sets no limit. Returns NotReady when the time runs out first.
  virtual Status synchronize(std::int64_t timeout_ms = -1) = 0;
  // Returns the nanoseconds from the point of `earlier` to the point of this event. Both are of EventUse::Timing and of
  // one device. Returns InvalidUsage where either was not recorded or not made for timing. Returns NotReady where
  // either was not passed yet.
  virtual Result<std::int64_t> ns_since(const Event& earlier) const = 0;
};

enum class EventUse : std::uint8_t {
  Order,   // between streams
  Timing,  // also for ns_since()
};

// A graph of the work that streams captured. Its calls and buffers belong to it until it is destroyed, and destroying
// it waits for its launches. It may outlive the streams it was captured in. One thread uses it at a time.
class Graph {
 public:
  virtual ~Graph() = default;
  // Adds all that was captured to `stream`, which is of the same device, as one piece of work. A graph may be launched
  // any number of times, in any of its device's streams; its launches run one after the other. Its calls take their
  // turns now, in the order of their capture. So all ranks must launch graphs and make direct calls in one order.
  // Returns InvalidUsage, and begins nothing, where a communicator of its calls was destroyed or is in another thread's
  // call, or where `stream` captures. Returns a failed communicator's error where one has failed.
  virtual Status launch(Stream& stream) = 0;
};

// A stream does work in order. Any thread may add to it; calls return at once. After a failure of its work the rest is
// skipped, and every call returns that first error. A CUDA device still makes the copies that it was given before. A
// communicator fails if one of its calls was skipped. Destroying the stream waits for its work.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device& device() const = 0;
  // Does target = source, between any two of host memory and this device's memory. Both must live until the copy is
  // done. A thread of the host copies host memory that is not pinned, which takes longer. Returns InvalidArgument for
  // memory of another device.
  virtual Status copy(void* target, const void* source, std::size_t bytes) = 0;
  // Runs `work` on a host thread. An exception of `work` is a failure. It must not add to this stream.
  virtual Status run(std::function<Status()> work) = 0;
  // Makes `event` mean this point from now on.
  virtual Status record(Event& event) = 0;
  // Makes later work wait for the point that `event` means now. The event is of this device.
  virtual Status wait(Event& event) = 0;
  virtual bool idle() const = 0;
  // Waits for all work. timeout_ms < 0 sets no limit. Returns NotReady when the time runs out first.
  virtual Status synchronize(std::int64_t timeout_ms = -1) = 0;

  // Keeps what is added to this stream from now on for a graph, instead of running it. Copies, work, events, and calls
  // of communicators (start(), groups) can be captured; counts of calls are copied. A stream of the device that waits
  // for an event recorded in this way captures, too. It must be joined: the first stream waits for an event recorded
  // behind its last work. Other uses are InvalidUsage and end the capture, so that end_capture() fails. They are
  // synchronize(), idle(), a blocking call in the stream, and waiting for an event recorded outside.
  virtual Status begin_capture() = 0;
  // Ends the capture of all its streams; the stream that began it makes this call. Returns InvalidUsage, with the
  // reason, where the capture had become invalid or a stream was not joined.
  virtual Result<std::unique_ptr<Graph>> end_capture() = 0;
};

// Any thread may use a device. It lives as long as the process.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  // Returns InvalidArgument for 0 bytes, and System when refused.
  Result<DeviceMemory> allocate(std::size_t bytes, MemoryUse use = MemoryUse::Plain) { return make(bytes, use); }
  virtual Result<std::unique_ptr<Stream>> make_stream() = 0;
  virtual Result<std::unique_ptr<Event>> make_event(EventUse use) = 0;
  Result<std::unique_ptr<Event>> make_event() { return make_event(EventUse::Order); }
  // Copies like Stream::copy. The copy is done on return.
  virtual Status copy(void* target, const void* source, std::size_t bytes) = 0;

 private:
  friend class DeviceMemory;
  virtual Result<DeviceMemory> make(std::size_t bytes, MemoryUse use) = 0;
  virtual void release(std::byte* data, std::size_t bytes) = 0;
};

inline DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_->release(data_, bytes_);
}

// Returns the device made of host threads and memory. Its memory may be touched by its own calls only: any other access
// is a segmentation fault, as with a real device. A program can try everything but the speed on it.
Device& host_device();

// Returns how many CUDA devices this process sees. Returns Unavailable with the reason where there is none: "no
// libcuda.so.1: ...".
Result<int> cuda_devices();

// Returns CUDA's device `number`, named "cuda:0" and so on; it is always the same object. Returns Unavailable where
// there is no CUDA or the device does not start. Returns InvalidArgument where there is no such number.
Result<Device*> cuda_device(int number);

// Returns the CUDA device that is current in this thread. Returns null where none is, or this process has not loaded
// CUDA.
Device* current_cuda_device();

// Wraps the program's own stream of a CUDA device, for calls of this library. `stream` is a cudaStream_t or CUstream;
// null is the default stream. It stays the program's, and may be destroyed before the returned object. While the
// program itself captures it into a graph, additions to the returned stream are InvalidUsage. Returns InvalidArgument
// where `device` is not a CUDA device.
Result<std::unique_ptr<Stream>> use_cuda_stream(Device& device, void* stream);

// Returns the device whose memory `data` is in, which the host does not reach. Returns null for memory of the host,
// also for pinned and managed memory. Only devices that this process has used are known.
Device* device_of_memory(const void* data);

}  // namespace wreath
