// Reads the description of the machine from /proc, /sys and sysconf.
#include "perf/limits/machine.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <new>
#include <set>
#include <utility>

#include "perf/base/machine.hpp"
#include "src/base/cpu.hpp"

namespace wreath::perf {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// Returns the size from sysfs, since sysconf reports wrong totals in some virtual machines.
std::size_t cache_bytes(int level, std::size_t otherwise) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    int found_level = 0;
    std::string type;
    std::size_t kib = 0;
    std::ifstream(folder + "level") >> found_level;
    std::ifstream(folder + "type") >> type;
    std::ifstream(folder + "size") >> kib;  // "1024K"
    if (found_level == level && type != "Instruction" && kib > 0) return kib << 10;
  }
  return otherwise;
}

// Returns "package/core", which is equal for hardware threads of one core.
std::string physical_core(int core) {
  const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", core);
  std::string package = "?";
  std::string number = std::to_string(core);
  std::ifstream(folder + "physical_package_id") >> package;
  std::ifstream(folder + "core_id") >> number;
  return package + "/" + number;
}

}  // namespace

Machine this_machine() {
  return {cpu_name(), usable_cores(), cache_bytes(2, std::size_t{1} << 20), cache_bytes(3, std::size_t{32} << 20)};
}

std::vector<int> pick_cores(int count) {
  std::vector<int> first;
  std::vector<int> siblings;
  std::set<std::string> seen;
  for (const int core : allowed_cores()) {
    (seen.insert(physical_core(core)).second ? first : siblings).push_back(core);
  }
  first.insert(first.end(), siblings.begin(), siblings.end());
  if (std::cmp_less(first.size(), count)) return {};
  first.resize(static_cast<std::size_t>(count));
  return first;
}

Pin::Pin(int core) {
  CPU_ZERO(&before_);
  sched_getaffinity(0, sizeof(before_), &before_);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(core), &one);
  sched_setaffinity(0, sizeof(one), &one);
}

Pin::~Pin() { sched_setaffinity(0, sizeof(before_), &before_); }

Pages::Pages(std::size_t bytes) : bytes_((bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(memory);
  madvise(memory, bytes_, MADV_HUGEPAGE);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at < bytes_; at += page) data_[at] = std::byte{0};
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace wreath::perf
