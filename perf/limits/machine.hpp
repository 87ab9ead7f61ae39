// The machine under test: its name, its caches, the cores for threads, and memory for measurements.
#pragma once

#include <sched.h>

#include <cstddef>
#include <string>
#include <vector>

namespace wreath::perf {

struct Machine {
  std::string cpu;  // "AMD EPYC"
  int cores = 1;    // usable by this process at once
  std::size_t l2_bytes = 0;
  std::size_t l3_bytes = 0;
};

// Describes this machine. The caches count as 1 MiB and 32 MiB where the system does not state their sizes.
Machine this_machine();

// Returns `count` logical processors of this thread's affinity mask for `count` threads, with different physical cores
// first. Empty when there are fewer.
std::vector<int> pick_cores(int count);

// Keeps the calling thread on one logical processor. The destructor restores the thread's mask.
class Pin {
 public:
  explicit Pin(int core);
  ~Pin();
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

 private:
  cpu_set_t before_;
};

// Anonymous pages that are present and zero, on huge pages where the system gives them.
class Pages {
 public:
  Pages() = default;
  explicit Pages(std::size_t bytes);  // throws std::bad_alloc
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;
  ~Pages();
  std::byte* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace wreath::perf
