// Reads memory by NUMA node.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "src/topology/kernel_files.hpp"
#include "src/topology/parts.hpp"

namespace wreath {
namespace {

// More is no memory but a mistake.
constexpr std::uint64_t kMostKib = std::uint64_t{1} << 50;

// Reads a field such as "67108864 kB", and returns it in bytes.
std::uint64_t kib_field(const std::string& path, const std::string& key) {
  const std::string text = field_of(path, key);
  std::uint64_t kib = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), kib);
  return read.ec == std::errc() && kib <= kMostKib ? kib * 1024 : 0;
}

// Compares the nodes with /proc/meminfo, which has all memory. Some machines' nodes count the memory that was there at
// the start, and not what was added since.
void compare_with_whole(const NumaNode& whole, Topology& topology) {
  std::uint64_t bytes = 0;
  for (const NumaNode& node : topology.nodes) bytes += node.bytes;
  if (bytes >= whole.bytes - whole.bytes / 100) return;
  if (topology.nodes.size() == 1) {
    topology.nodes[0].bytes = whole.bytes;
    topology.nodes[0].free_bytes = whole.free_bytes;
  } else {
    topology.unknown.push_back(fmt::format("where {} of the machine's {} of memory are: its NUMA nodes show {}",
                                           size_text(whole.bytes - bytes), size_text(whole.bytes), size_text(bytes)));
  }
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
  const std::string whole = root + "/proc/meminfo";
  NumaNode node{0, kib_field(whole, "MemTotal"), kib_field(whole, "MemFree"), {}};
  if (!topology.nodes.empty()) return compare_with_whole(node, topology);
  for (const Processor& processor : topology.processors) node.processors.push_back(processor.number);
  std::sort(node.processors.begin(), node.processors.end());
  topology.nodes.push_back(std::move(node));
}

}  // namespace wreath
