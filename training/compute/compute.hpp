// Compute is the place where a rank computes: a device with a stream for all of the rank's work, and memory of that
// device. Functions of training/ compute where their buffers lie. In host memory they run on the calling thread; in
// memory of a Compute they put kernels into its stream and do not wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "training/compute/kernels/block.hpp"
#include "wreath/device.hpp"
#include "wreath/dtypes.hpp"
#include "wreath/kernel.hpp"

namespace wreath::training {

class Compute;
class Cublaslt;

// training/compute/kernels/kernels.hpp declares the kernels of each Run.
template <typename Run>
const Kernel& kernel_of() noexcept;

// The grid on the host device, whose threads are real ones, so there are few by default. The work decides the grid on a
// GPU.
struct ComputeOptions {
  int host_blocks = 2;
  int host_threads = 1;  // of a block, up to kKernelThreads
  // On a CUDA device cuBLASLt computes products where it is found. Otherwise the own kernel does, whose bits are the
  // CPU's.
  bool cublaslt = true;
  // The 16-bit format that the values of products' factors have, if any. cuBLASLt is then given 2 bytes for each value.
  std::optional<DataType> factors = {};
};

// Returns the Compute whose memory `data` is in, or null for host memory. Any thread may call it.
Compute* compute_of(const void* data) noexcept;
template <typename T>
Compute* compute_of(std::span<T> values) noexcept {
  return values.empty() ? nullptr : compute_of(static_cast<const void*>(values.data()));
}

// A Compute belongs to one rank, and one thread at a time uses it. It outlives all of its memory. Failures of the
// device and of earlier work in the stream are thrown (Exception), possibly some calls later.
class Compute {
 public:
  // Creates a Compute on `device`, which lives as long as the process. The error is Unavailable where this build has no
  // kernels for the device.
  static Result<std::unique_ptr<Compute>> create(Device& device, const ComputeOptions& options = {});
  ~Compute();
  Compute(const Compute&) = delete;
  Compute& operator=(const Compute&) = delete;

  Device& device() const noexcept { return device_; }
  // Returns a text like "cuda:0, products by cuBLASLt 13.0.2", or names the own kernel and the reason.
  std::string description() const;
  Stream& stream() const noexcept { return *stream_; }

  // Returns null where there is no cuBLASLt and the own kernel multiplies.
  Cublaslt* cublaslt() const noexcept { return cublaslt_.get(); }
  const std::optional<DataType>& factors() const noexcept { return options_.factors; }

  // Returns `bytes` of the device, aligned to 512 and with undefined content, or null where the device has no more.
  // Freed memory is given out again without waiting. If another stream used the memory, free() is called only after
  // this stream was made to wait for that use.
  void* allocate(std::size_t bytes);
  void free(void* data) noexcept;

  // Returns the address by which kernels reach memory of this Compute at `data`; null gives null.
  template <typename T>
  T* at(T* data) const noexcept {
    return same_addresses_ || data == nullptr ? data : data + shift(data) / static_cast<std::ptrdiff_t>(sizeof(T));
  }
  template <typename T>
  T* at(std::span<T> values) const noexcept {
    return values.empty() ? nullptr : at(values.data());
  }

  // Adds run_kernel(run) to the stream, on at most `blocks` blocks. Pointers in `run` come from at().
  template <typename Run>
  void launch(Run run, std::uint64_t blocks) {
    run.blocks = blocks_for(blocks);
    launch(kernel_of<Run>(), run.blocks, &run, sizeof run);
  }
  // Adds run_kernel(run) to the stream with blocks enough for 4 of `elements` in each thread.
  template <typename Run>
  void launch_elements(const Run& run, std::uint64_t elements) {
    constexpr std::uint64_t kEach = 4;  // elements of a thread
    launch(run, elements / (kKernelThreads * kEach) + 1);
  }

  // Returns the number of blocks that launch() takes when `blocks` are asked for. It is lower where the device runs no
  // more at once.
  std::uint32_t blocks_for(std::uint64_t blocks) const noexcept;

  // Zeroes `bytes` of this Compute's memory and up to 3 bytes behind them.
  void zero(void* data, std::size_t bytes);
  // Copies source to target; each is memory of this Compute or of the host. A host source may be freed at once. A copy
  // to the host returns when the bytes are there.
  void copy(void* target, const void* source, std::size_t bytes);
  void synchronize();

  // Returns an event at this point of the stream, from a pool, for side streams to wait on.
  std::unique_ptr<Event> record();
  void recycle(std::unique_ptr<Event> event) { events_.push_back(std::move(event)); }

 private:
  struct Region {
    DeviceMemory memory;
    std::ptrdiff_t shift = 0;  // from program to kernel addresses
  };
  // Pinned memory that copies from the host pass through. Segments are used up one after the other.
  struct Segment {
    DeviceMemory memory;
    // Comes after all copies out of this segment.
    std::unique_ptr<Event> read;
    std::size_t used = 0;
  };

  Compute(Device& device, const ComputeOptions& options, std::unique_ptr<Stream> stream);
  std::ptrdiff_t shift(const void* data) const noexcept;
  void launch(const Kernel& kernel, std::uint32_t blocks, const void* run, std::size_t bytes);
  void* carve(std::size_t bytes);
  std::byte* add_region(std::size_t bytes);
  bool drop_unused();
  std::byte* stage(const void* source, std::size_t bytes);

  Device& device_;
  ComputeOptions options_;
  bool is_host_;
  bool same_addresses_ = false;
  std::unique_ptr<Stream> stream_;
  std::vector<std::unique_ptr<Event>> events_;
  std::map<const std::byte*, Region> regions_;           // by their begin
  std::map<std::size_t, std::vector<std::byte*>> free_;  // by size
  std::map<const void*, std::size_t> sizes_;             // of all blocks in use
  // The rest of the last region, for small blocks.
  std::byte* open_ = nullptr;
  std::size_t open_bytes_ = 0;
  std::vector<Segment> segments_;
  std::size_t segment_ = 0;
  std::unique_ptr<Cublaslt> cublaslt_;
  std::string no_cublaslt_;  // the reason that there is none
};

// Copies source to target, which have one size. Each lies in memory of one Compute or of the host.
template <typename T>
void copy(std::span<const T> source, std::span<T> target);
// Sets all values, in host memory or in that of a Compute.
void fill(std::span<float> values, float value);

// Rows of values, each `stride` values after the one before.
template <typename T>
struct StridedRows {
  T* data = nullptr;
  std::int64_t stride = 0;
};
// Copies `rows` rows of `width` values. Both sides lie in host memory, or both in that of one Compute.
void copy_rows(StridedRows<const float> source, StridedRows<float> target, std::int64_t rows, std::int64_t width);

// Copies values of the host into memory of a Compute, for work that is put into its stream while this object lives.
template <typename T>
class OnCompute {
 public:
  OnCompute(Compute& compute, std::span<const T> values) : compute_(compute) {
    if (values.empty()) return;
    data_ = static_cast<T*>(compute.allocate(values.size_bytes()));
    if (data_ == nullptr) throw Exception({ErrorCode::System, "no memory of the device for what a kernel is given"});
    compute.copy(data_, values.data(), values.size_bytes());
  }
  OnCompute(const OnCompute&) = delete;
  OnCompute& operator=(const OnCompute&) = delete;
  ~OnCompute() {
    if (data_ != nullptr) compute_.free(data_);
  }
  T* at() const noexcept { return compute_.at(data_); }
  T* data() const noexcept { return data_; }

 private:
  Compute& compute_;
  T* data_ = nullptr;
};

namespace detail {
void copy_bytes(void* target, const void* source, std::size_t bytes);
}
template <typename T>
void copy(std::span<const T> source, std::span<T> target) {
  detail::copy_bytes(target.data(), source.data(), source.size_bytes());
}

}  // namespace wreath::training
