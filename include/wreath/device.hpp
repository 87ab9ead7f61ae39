// Processors with memory of their own: streams of work in order, events between them, memory only they may touch.
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
  Plain,       // memory of the device
  Pinned,      // memory of the host that the device reads and writes, too, and that is copied without waiting
  Exportable,  // memory of the device that other processes can map
};

// Owns memory of a device, or pinned memory: aligned to 256 bytes at least, zero-filled. The address of a device's
// memory is for Device, Stream and Communicator calls only; the host may not read or write it. Freed when destroyed,
// which no work in flight may be using then.
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

// A point in a stream. Recorded again, it means the later point. May outlive the streams it was used with.
class Event {
 public:
  virtual ~Event() = default;
  // Whether the work before the last record() is over; true if never recorded.
  virtual bool done() const = 0;
  // Waits for it. timeout_ms < 0: without end. NotReady when the time runs out first.
  virtual Status synchronize(std::int64_t timeout_ms = -1) = 0;
  // Nanoseconds from the point of `earlier` to this one's, both of EventUse::Timing and of one device. InvalidUsage
  // where either was not recorded or not made for it, NotReady where either was not passed yet.
  virtual Result<std::int64_t> ns_since(const Event& earlier) const = 0;
};

enum class EventUse : std::uint8_t {
  Order,   // between streams
  Timing,  // also for ns_since()
};

// What streams captured. Its calls and buffers belong to it until it is destroyed, which waits for its launches. May
// outlive the streams it was captured in. Used by one thread at a time.
class Graph {
 public:
  virtual ~Graph() = default;
  // Adds all that was captured to `stream`, which is of the same device, as one piece of work: any number of times, in
  // any of its streams; launches of one graph run one after the other. Its calls take their turns now, in the order in
  // which they were captured: so all ranks launch and make direct calls in one order. InvalidUsage, and nothing of it
  // is begun, where a communicator of its calls was destroyed or is in another thread's call, or where `stream`
  // captures; a failed communicator's error where one has failed.
  virtual Status launch(Stream& stream) = 0;
};

// Work in order. Any thread may add to it; calls return at once. After a failure of its work the rest is skipped (on a
// CUDA device all but the copies that it was given before) and every call returns that first error; a communicator of
// which a call was skipped fails. Destroying it waits for its work.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device& device() const = 0;
  // target = source, between any two of host memory and this device's. Both live until it is done. Of host memory that
  // is not pinned a thread of the host makes it, which takes longer. InvalidArgument for memory of another device.
  virtual Status copy(void* target, const void* source, std::size_t bytes) = 0;
  // Runs `work` on a host thread; an exception of it is a failure. It may not add to this stream.
  virtual Status run(std::function<Status()> work) = 0;
  // `event` means this point from now on.
  virtual Status record(Event& event) = 0;
  // Later work waits for the point that `event` means now. The event is of this device.
  virtual Status wait(Event& event) = 0;
  virtual bool idle() const = 0;
  // Waits for all work. timeout_ms < 0: without end. NotReady when the time runs out first.
  virtual Status synchronize(std::int64_t timeout_ms = -1) = 0;

  // From now on what is added to this stream is kept for a graph instead of being run: copies, work, events, and calls
  // of communicators (start(), groups), whose counts are copied. A stream of the device that waits for an event
  // recorded so captures, too, and must be joined: the first stream waits for an event recorded behind its last work.
  // What cannot be captured is InvalidUsage and ends the capture, so that end_capture() fails: synchronize(), idle(), a
  // blocking call in the stream, waiting for an event recorded outside.
  virtual Status begin_capture() = 0;
  // Of the stream that began. Ends the capture of all its streams. InvalidUsage, saying why, where it had become
  // invalid or a stream was not joined.
  virtual Result<std::unique_ptr<Graph>> end_capture() = 0;
};

// May be used by any thread. Lives as long as the process.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  // InvalidArgument for 0 bytes, System when refused.
  Result<DeviceMemory> allocate(std::size_t bytes, MemoryUse use = MemoryUse::Plain) { return make(bytes, use); }
  virtual Result<std::unique_ptr<Stream>> make_stream() = 0;
  virtual Result<std::unique_ptr<Event>> make_event(EventUse use) = 0;
  Result<std::unique_ptr<Event>> make_event() { return make_event(EventUse::Order); }
  // As Stream::copy, done on return.
  virtual Status copy(void* target, const void* source, std::size_t bytes) = 0;

 private:
  friend class DeviceMemory;
  virtual Result<DeviceMemory> make(std::size_t bytes, MemoryUse use) = 0;
  virtual void release(std::byte* data, std::size_t bytes) = 0;
};

inline DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_->release(data_, bytes_);
}

// The device made of host threads and memory: touching its memory from anywhere but its own calls is a
// segmentation fault, as with a real one. Everything but the speed can be tried on it.
Device& host_device();

// How many CUDA devices this process sees. Unavailable where there is none, and why: "no libcuda.so.1: ...".
Result<int> cuda_devices();

// CUDA's device `number`, named "cuda:0" and so on; always the same object. Unavailable where there is no CUDA or the
// device does not start, InvalidArgument where there is no such number.
Result<Device*> cuda_device(int number);

// The CUDA device that is current in this thread; null: none, or this process has not loaded CUDA.
Device* current_cuda_device();

// The program's own stream of a CUDA device (a cudaStream_t or CUstream; null: the default stream), for calls of this
// library. The stream stays the program's, and may go before what this returns. While the program itself captures it
// into a graph, what it is given here is InvalidUsage. InvalidArgument where `device` is no CUDA device.
Result<std::unique_ptr<Stream>> use_cuda_stream(Device& device, void* stream);

// The device whose memory `data` is in, which the host does not reach; null: memory of the host, pinned and managed,
// too. Of devices that this process has used.
Device* device_of_memory(const void* data);

}  // namespace wreath
