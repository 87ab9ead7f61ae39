// Reads cores from the affinity mask and the cgroup quota, and scales the cycle counter.
#include "src/base/cpu.hpp"

#include <sched.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/config.hpp"

namespace wreath {
namespace {

constexpr double kNoQuota = 0;

// Reads "max 100000" or "150000 100000" of cgroup v2's cpu.max. Returns cores, or kNoQuota.
double quota_v2(const std::string& path) {
  std::ifstream file(path);
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return kNoQuota;
  std::istringstream number(quota);
  double microseconds = 0;
  return number >> microseconds && microseconds > 0 ? microseconds / period : kNoQuota;
}

// Divides cpu.cfs_quota_us (-1 for none) by cpu.cfs_period_us of cgroup v1. Returns cores, or kNoQuota.
double quota_v1(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 || period <= 0) return kNoQuota;
  return quota / period;
}

bool lists_cpu(const std::string& controllers) {
  std::istringstream words(controllers);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "cpu") return true;
  }
  return false;
}

// Returns the smallest quota from `path` up to the root of the hierarchy mounted at `mount`.
template <typename Read>
double smallest_quota(const std::string& mount, std::string path, Read read) {
  double smallest = kNoQuota;
  while (true) {
    const double quota = read(mount + path);
    if (quota != kNoQuota && (smallest == kNoQuota || quota < smallest)) smallest = quota;
    if (path.empty()) return smallest;
    path.erase(path.find_last_of('/'));
  }
}

// Returns the smallest quota of the process's cgroups. Lines of /proc/self/cgroup are "0::/user.slice" (v2) or
// "4:cpu,cpuacct:/docker/1" (v1). Inside a container the path may not exist below the mount; then only the mount's own
// files count.
double cgroup_quota(const std::string& root) {
  double smallest = kNoQuota;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path.empty() || path.front() != '/') continue;
    if (path.back() == '/') path.pop_back();
    double quota = kNoQuota;
    if (controllers.empty()) {
      const auto read = [](const std::string& folder) { return quota_v2(folder + "/cpu.max"); };
      quota = smallest_quota(root + "/sys/fs/cgroup", path, read);
    } else if (lists_cpu(controllers)) {
      quota = smallest_quota(root + "/sys/fs/cgroup/cpu", path, quota_v1);
    }
    if (quota != kNoQuota && (smallest == kNoQuota || quota < smallest)) smallest = quota;
  }
  return smallest;
}

void add_core(CoreSet& cores, std::size_t core) {
  cores.resize(std::max(cores.size(), core / 8 + 1));
  cores[core / 8] = static_cast<char>(cores[core / 8] | 1 << core % 8);
}

}  // namespace

CacheSizes cache_sizes() {
  const auto size = [](int name) {
    const long bytes = ::sysconf(name);
    return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
  };
  return {size(_SC_LEVEL2_CACHE_SIZE), size(_SC_LEVEL3_CACHE_SIZE)};
}

#if defined(__x86_64__)
std::string cpu_vendor() {
  unsigned words[4] = {};  // eax, ebx, ecx, edx
  if (__get_cpuid(0, &words[0], &words[1], &words[2], &words[3]) == 0) return {};
  std::string vendor;
  for (const unsigned word : {words[1], words[3], words[2]}) {
    vendor.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return vendor;
}
#else
std::string cpu_vendor() { return {}; }
#endif

int usable_cores(const char* root, int affinity) {
  const std::string prefix = std::string(root) == "/" ? std::string() : std::string(root);
  const double quota = cgroup_quota(prefix);
  const int cores = std::max(affinity, 1);
  if (quota == kNoQuota || quota >= cores) return cores;
  return std::max(1, static_cast<int>(std::ceil(quota)));
}

int usable_cores() { return usable_cores("/", count_cores(allowed_cores())); }

CoreSet allowed_cores() {
  CoreSet cores;
  // Machines with more cores than cpu_set_t holds need a larger set: EINVAL says so.
  for (std::size_t words = 16; words <= 4096; words *= 2) {
    std::vector<unsigned long> mask(words);
    cpu_set_t* set = reinterpret_cast<cpu_set_t*>(mask.data());
    const std::size_t bytes = words * sizeof(unsigned long);
    if (sched_getaffinity(0, bytes, set) != 0) continue;
    for (std::size_t core = 0; core < bytes * 8; ++core) {
      if (CPU_ISSET_S(core, bytes, set)) add_core(cores, core);
    }
    return cores;
  }
  for (std::size_t core = 0; core < std::thread::hardware_concurrency(); ++core) add_core(cores, core);
  return cores;
}

void add_cores(CoreSet& cores, const CoreSet& more) {
  cores.resize(std::max(cores.size(), more.size()));
  for (std::size_t i = 0; i < more.size(); ++i) cores[i] = static_cast<char>(cores[i] | more[i]);
}

int count_cores(const CoreSet& cores) {
  int count = 0;
  for (const char eight : cores) count += std::popcount(static_cast<unsigned char>(eight));
  return count;
}

TickPair TickPair::now() { return {cycle_count(), now_ns()}; }

std::int64_t TickScale::to_ns(std::uint64_t ticks) const {
  const auto distance = [](std::uint64_t from, std::uint64_t to) {
    return static_cast<double>(static_cast<std::int64_t>(to - from));
  };
  const double span = distance(first_.ticks, second_.ticks);
  if (span <= 0) return first_.ns;
  const double rate = static_cast<double>(second_.ns - first_.ns) / span;
  return first_.ns + static_cast<std::int64_t>(std::llround(distance(first_.ticks, ticks) * rate));
}

HostRanks host_ranks(int ranks, int cores) {
  const Result<std::int64_t> told = setting_integer(Setting::HostCores);
  return {ranks, told && *told > 0 ? static_cast<int>(*told) : usable_cores("/", cores)};
}

std::int64_t spin_budget_ns(const HostRanks& host) {
  constexpr std::int64_t kDefaultNs = 50'000;
  const Result<std::int64_t> setting = setting_integer(Setting::SpinUs);
  if (setting && *setting >= 0) return *setting * 1000;
  return host.crowded() ? 0 : kDefaultNs;
}

}  // namespace wreath
