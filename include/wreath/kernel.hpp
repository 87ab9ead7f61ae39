// A program may have kernels of its own. A kernel says what all threads of all blocks of a grid do, for a device's
// memory. One source is compiled twice: by nvcc for GPUs, and by the C++ compiler for the host device. On the host
// device a block is a group of host threads.
//
// A kernel is a template over its block. The block has block(), thread(), threads(), barrier(), pause(), clock_ns(),
// shared_memory() and kTogether. kTogether is the number of threads that run in step (a warp).
//
//   template <typename Block>
//   WREATH_HOST_DEVICE void run_fill(Block& block, const FillRun& run);
//
// HostBlock is the host's block, and CudaBlock (cuda_block.cuh) a GPU's. training/compute/kernels shows both ends.
#pragma once

#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

#include "wreath/device.hpp"
#include "wreath/host_device.hpp"

namespace wreath {

// The state that the threads of one block share on the host. Each thread has a HostBlock of its own that refers to it.
struct HostBlockShared {
  explicit HostBlockShared(std::ptrdiff_t threads) : meet(threads) {}
  std::barrier<> meet;
  // The memory of the block, as `__shared__` is, with the size that a GPU gives unasked. The kernel gives it a meaning.
  alignas(16) std::byte memory[std::size_t{48} * 1024] = {};
};

// One thread's place in a grid on the host.
class HostBlock {
 public:
  static constexpr unsigned kTogether = 1;
  HostBlock(HostBlockShared& shared, unsigned block, unsigned thread, unsigned threads)
      : shared_(shared), block_(block), thread_(thread), threads_(threads) {}
  unsigned block() const { return block_; }
  unsigned thread() const { return thread_; }
  unsigned threads() const { return threads_; }
  // Returns when all threads of the block have come. All of them then see what each wrote before.
  void barrier() { shared_.meet.arrive_and_wait(); }
  // Lets other threads run while this one has nothing to do.
  void pause() {
    if (++pauses_ % kYields != 0) return std::this_thread::yield();
    // The thread that this one waits for may need this core.
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  static std::uint64_t clock_ns() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  }
  std::byte* shared_memory() { return shared_.memory; }

 private:
  static constexpr unsigned kYields = 16;

  HostBlockShared& shared_;
  unsigned pauses_ = 0;
  unsigned block_;
  unsigned thread_;
  unsigned threads_;
};

struct Kernel {
  const char* name;  // of the extern "C" function
  // A fat binary, a cubin or PTX, as cuModuleLoadData takes it. If it is null, no GPU runs the kernel.
  const void* image;
  // The same kernel on the host. Each thread of each block calls it with a copy of the argument.
  void (*host)(HostBlock& block, const void* arguments);
};

// A grid of one kernel. The kernel has one parameter by value: the `bytes` bytes at `arguments`.
struct Grid {
  int blocks;
  int threads;  // threads of each block, 1024 at most
  const void* arguments;
  std::size_t bytes;
};

// Adds the grid to `stream`, and copies the argument. `kernel` must live as long as the process. Addresses in the
// argument are those of address_in_kernels(). Returns Unavailable where the kernel has no code for the stream's device.
Status launch(Stream& stream, const Kernel& kernel, const Grid& grid);

// Adds work of CUDA's own libraries. Calls `add` with the stream's CUstream, while the device's context is current in
// this thread. The work that `add` puts there runs in the stream's order. An error of `add` is the stream's failure,
// too. A graph that captures the work may call `add` again with each launch, from another thread and with another
// stream. Returns InvalidArgument where the stream does not belong to a CUDA device.
Status add_cuda_work(Stream& stream, const std::function<Status(void* cuda_stream)>& add);

// Returns how many blocks of `threads` threads of the kernel run at once on the device.
Result<int> resident_blocks(Device& device, const Kernel& kernel, int threads);

// Returns the address by which kernels of `device` reach memory at `data`. On the host device, the address of its own
// memory differs from the program's address. Pinned memory keeps its address.
std::byte* address_in_kernels(Device& device, const void* data);
template <typename T>
T* address_in_kernels(Device& device, T* data) {
  return reinterpret_cast<T*>(address_in_kernels(device, static_cast<const void*>(data)));
}

}  // namespace wreath
