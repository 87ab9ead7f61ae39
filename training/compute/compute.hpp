// Compute: where a rank computes. A device with a stream in which all of the rank's work is put in order, and memory
// of that device. Functions of training/ compute where their buffers lie: in host memory on the calling thread, in
// memory of a Compute by its kernels, in its stream, without waiting.
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

// Grids of the host device, whose threads are real ones: few by default. A GPU's are chosen by the work.
struct ComputeOptions {
  int host_blocks = 2;
  int host_threads = 1;  // of a block, up to kKernelThreads
  // On a CUDA device: products by cuBLASLt where it is found; else by the own kernel, whose bits are the CPU's.
  bool cublaslt = true;
  // A 16-bit format whose values the factors of products have: cuBLASLt is then given 2 bytes each.
  std::optional<DataType> factors = {};
};

// The Compute whose memory `data` is in; null: memory of the host. Any thread.
Compute* compute_of(const void* data) noexcept;
template <typename T>
Compute* compute_of(std::span<T> values) noexcept {
  return values.empty() ? nullptr : compute_of(static_cast<const void*>(values.data()));
}

// One rank's; of one thread at a time. Outlives all of its memory. Failures of the device, and of what was put into
// the stream before, are thrown (Exception), some calls later than what failed.
class Compute {
 public:
  // `device` lives as long as the process. Unavailable where this build has no kernels for it.
  static Result<std::unique_ptr<Compute>> create(Device& device, const ComputeOptions& options = {});
  ~Compute();
  Compute(const Compute&) = delete;
  Compute& operator=(const Compute&) = delete;

  Device& device() const noexcept { return device_; }
  // "cuda:0, products by cuBLASLt 13.0.2", or by the own kernel and why.
  std::string description() const;
  Stream& stream() const noexcept { return *stream_; }

  // Null: there is none, and the own kernel multiplies.
  Cublaslt* cublaslt() const noexcept { return cublaslt_.get(); }
  const std::optional<DataType>& factors() const noexcept { return options_.factors; }

  // `bytes` of the device, aligned to 512, of any content; null where the device has no more. What was freed is given
  // out again without waiting: whoever frees memory that another stream used has made this one's wait for that.
  void* allocate(std::size_t bytes);
  void free(void* data) noexcept;
  // Bytes taken from the device, in use or kept for the next allocation.
  std::size_t reserved_bytes() const noexcept { return reserved_bytes_; }

  // By which kernels reach memory of this Compute at `data`; null of null.
  template <typename T>
  T* at(T* data) const noexcept {
    return same_addresses_ || data == nullptr ? data : data + shift(data) / static_cast<std::ptrdiff_t>(sizeof(T));
  }
  template <typename T>
  T* at(std::span<T> values) const noexcept {
    return values.empty() ? nullptr : at(values.data());
  }

  // Adds run_kernel(run) on at most `blocks` blocks. Pointers in `run` are those of at().
  template <typename Run>
  void launch(Run run, std::uint64_t blocks) {
    run.blocks = blocks_for(blocks);
    launch(kernel_of<Run>(), run.blocks, &run, sizeof run);
  }
  // The same, a thread for each of `elements`.
  template <typename Run>
  void launch_elements(const Run& run, std::uint64_t elements) {
    constexpr std::uint64_t kEach = 4;  // elements of a thread
    launch(run, elements / (kKernelThreads * kEach) + 1);
  }

  // Returns the blocks that launch() takes for so many: fewer where the device runs no more at once.
  std::uint32_t blocks_for(std::uint64_t blocks) const noexcept;

  // Zeroes `bytes` of this Compute's memory and up to 3 behind them.
  void zero(void* data, std::size_t bytes);
  // target = source, either memory of this Compute or the host's. From the host: `source` may go at once. To the host:
  // returns when it is there.
  void copy(void* target, const void* source, std::size_t bytes);
  void synchronize();

  // A point in the stream, from a pool: for side streams.
  std::unique_ptr<Event> record();
  void recycle(std::unique_ptr<Event> event) { events_.push_back(std::move(event)); }

 private:
  struct Region {
    DeviceMemory memory;
    std::ptrdiff_t shift = 0;  // from the program's addresses to the kernels'
  };
  // Pinned memory that copies from the host pass through, used up one segment after the other.
  struct Segment {
    DeviceMemory memory;
    std::unique_ptr<Event> read;  // all that was put into it
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
  std::byte* open_ = nullptr;                            // what is left of the last region for small blocks
  std::size_t open_bytes_ = 0;
  std::size_t reserved_bytes_ = 0;
  std::vector<Segment> segments_;
  std::size_t segment_ = 0;
  std::unique_ptr<Cublaslt> cublaslt_;
  std::string no_cublaslt_;  // why there is none
};

// target = source, of one size, wherever each of the two lies: memory of one Compute and of the host.
template <typename T>
void copy(std::span<const T> source, std::span<T> target);
// All of it, wherever it lies.
void fill(std::span<float> values, float value);

// `rows` rows of `width` values, each `stride` values after the one before.
template <typename T>
struct StridedRows {
  T* data = nullptr;
  std::int64_t stride = 0;
};
// Both in one place.
void copy_rows(StridedRows<const float> source, StridedRows<float> target, std::int64_t rows, std::int64_t width);

// Values of the host in memory of a Compute, for what is put into its stream while this lives.
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
