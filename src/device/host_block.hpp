// A block of a kernel on the host: threads that meet at a barrier.
#pragma once

#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "src/base/clock.hpp"

namespace wreath {

// What the threads of one block share. Each has a HostBlock of its own that refers to it.
struct HostBlockShared {
  explicit HostBlockShared(std::ptrdiff_t threads) : meet(threads) {}
  std::barrier<> meet;
  // Memory of the block, as `__shared__` is; the kernel gives it a meaning.
  alignas(16) std::byte memory[std::size_t{16} * 1024] = {};
};

// One thread's place in the grid.
class HostBlock {
 public:
  HostBlock(HostBlockShared& shared, unsigned block, unsigned thread, unsigned threads)
      : shared_(shared), block_(block), thread_(thread), threads_(threads) {}
  unsigned block() const { return block_; }
  unsigned thread() const { return thread_; }
  unsigned threads() const { return threads_; }
  // Returns when all threads of the block have come; what they wrote before is seen by all.
  void barrier() { shared_.meet.arrive_and_wait(); }
  // While there is nothing to do.
  void pause() {
    if (++pauses_ % kYields != 0) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(50));  // what it waits for may need this core
  }
  static std::uint64_t clock_ns() { return static_cast<std::uint64_t>(now_ns()); }
  std::byte* shared_memory() { return shared_.memory; }

 private:
  static constexpr unsigned kYields = 16;

  HostBlockShared& shared_;
  unsigned pauses_ = 0;
  unsigned block_;
  unsigned thread_;
  unsigned threads_;
};

}  // namespace wreath
