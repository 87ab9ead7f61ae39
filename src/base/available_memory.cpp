// Reads /proc/meminfo and the limits of every control group from this process's own up to the root.
#include "src/base/available_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

namespace wreath {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// Names the files of a version of control groups.
struct GroupFiles {
  // Names the controller in /proc/self/cgroup; version 2 has none.
  std::string_view controllers;
  std::string_view mount;
  std::string_view limit;
  std::string_view usage;
  // Names the field of memory.stat that the kernel reclaims before it kills a process.
  std::string_view cache;
};
constexpr GroupFiles kVersions[] = {
    {"", "/sys/fs/cgroup", "/memory.max", "/memory.current", "inactive_file"},
    {"memory", "/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"},
};

// Returns the number in a file; "max" and missing files give nullopt.
std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value;
  if (file >> value) return value;
  return std::nullopt;
}

// Returns the number after the word `key`, or 0 when there is none.
std::uint64_t read_field(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    std::uint64_t value;
    if (word == key && file >> value) return value;
  }
  return 0;
}

std::uint64_t left_in_machine(const std::string& root) {
  const std::string path = root + "/proc/meminfo";
  constexpr std::uint64_t kMostKibibytes = kNoLimit / 2048;
  const std::uint64_t available = std::min(read_field(path, "MemAvailable:"), kMostKibibytes);
  return available == 0 ? kNoLimit : (available + std::min(read_field(path, "SwapFree:"), kMostKibibytes)) * 1024;
}

// Returns what a group leaves of `left`. The statistics, which take the kernel long, are read where they matter.
std::uint64_t left_in_group(const std::string& folder, const GroupFiles& files, std::uint64_t left) {
  const std::optional<std::uint64_t> limit = read_number(folder + std::string(files.limit));
  if (!limit) return left;
  const std::optional<std::uint64_t> usage = read_number(folder + std::string(files.usage));
  if (!usage || *limit - std::min(*limit, *usage) >= left) return left;
  const std::uint64_t used = *usage - std::min(*usage, read_field(folder + "/memory.stat", files.cache));
  return std::min(left, *limit - std::min(*limit, used));
}

// Returns what the groups of one line leave of `left`. `line` is of /proc/self/cgroup, as
// "number:controller,controller:/path".
std::uint64_t left_in_groups(const std::string& root, const std::string& line, std::uint64_t left) {
  const std::size_t first = line.find(':');
  const std::size_t second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return left;
  const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
  for (const GroupFiles& files : kVersions) {
    if (controllers.find(fmt::format(",{},", files.controllers)) == std::string::npos) continue;
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      while (!path.empty() && path.back() == '/') path.pop_back();
      left = left_in_group(root + std::string(files.mount) + path, files, left);
      if (path.find('/') == std::string::npos) break;
    }
  }
  return left;
}

}  // namespace

std::uint64_t available_memory(const std::string& root) {
  std::uint64_t left = left_in_machine(root);
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) left = left_in_groups(root, line, left);
  return left;
}

}  // namespace wreath
