// Memory by NUMA node.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "src/topology/kernel_files.hpp"
#include "src/topology/parts.hpp"

namespace wreath {
namespace {

constexpr std::uint64_t kMostKib = std::uint64_t{1} << 50;  // more is no memory but a mistake

// "67108864 kB" in bytes.
std::uint64_t kib_field(const std::string& path, const std::string& key) {
  const std::string text = field_of(path, key);
  std::uint64_t kib = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), kib);
  return read.ec == std::errc() && kib <= kMostKib ? kib * 1024 : 0;
}

}  // namespace

void read_memory(const std::string& root, Topology& topology) {
  const std::string folder = root + "/sys/devices/system/node";
  for (const int number : list_of(folder + "/online")) {
    const std::string own = fmt::format("{}/node{}", folder, number);
    const std::string prefix = fmt::format("Node {} ", number);
    topology.nodes.push_back({number, kib_field(own + "/meminfo", prefix + "MemTotal"),
                              kib_field(own + "/meminfo", prefix + "MemFree"), list_of(own + "/cpulist")});
  }
  if (!topology.nodes.empty()) return;
  const std::string whole = root + "/proc/meminfo";
  NumaNode node{0, kib_field(whole, "MemTotal"), kib_field(whole, "MemFree"), {}};
  for (const Processor& processor : topology.processors) node.processors.push_back(processor.number);
  std::sort(node.processors.begin(), node.processors.end());
  topology.nodes.push_back(std::move(node));
}

}  // namespace wreath
