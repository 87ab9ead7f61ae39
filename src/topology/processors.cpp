// Reads processors and caches, and which processors this thread may use.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "src/topology/kernel_files.hpp"
#include "src/topology/parts.hpp"

namespace wreath {
namespace {

std::vector<int> read_allowed(const std::string& root) {
  for (const char* const who : {"thread-self", "self"}) {
    std::vector<int> allowed = parse_list(field_of(fmt::format("{}/proc/{}/status", root, who), "Cpus_allowed_list"));
    if (!allowed.empty()) return allowed;
  }
  return {};
}

}  // namespace

void read_processors(const std::string& root, Topology& topology) {
  topology.allowed = read_allowed(root);
  std::vector<int> online = list_of(root + "/sys/devices/system/cpu/online");
  if (const std::string reason = read_places(root, topology); !reason.empty()) {
    topology.unknown.push_back(reason + ": packages, cores, NUMA nodes and caches are not known");
    if (online.empty()) online = topology.allowed.empty() ? std::vector<int>{0} : topology.allowed;
    for (const int number : online) topology.processors.push_back({number, number, 0, 0});
  }
  if (topology.allowed.empty()) {
    for (const Processor& processor : topology.processors) topology.allowed.push_back(processor.number);
    std::sort(topology.allowed.begin(), topology.allowed.end());
  }
  std::sort(topology.processors.begin(), topology.processors.end(), [](const Processor& a, const Processor& b) {
    return std::tie(a.package, a.node, a.core, a.number) < std::tie(b.package, b.node, b.core, b.number);
  });
  std::sort(topology.caches.begin(), topology.caches.end(), [](const Cache& a, const Cache& b) {
    return std::tie(a.level, a.kind, a.processors) < std::tie(b.level, b.kind, b.processors);
  });
}

}  // namespace wreath
