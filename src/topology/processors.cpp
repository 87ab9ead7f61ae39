// Each processor's own folder says where it is; those of the NUMA nodes say who is in them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "src/topology/kernel_files.hpp"
#include "src/topology/parts.hpp"

namespace wreath {
namespace {

using NodeOf = std::map<int, int>;  // processor -> NUMA node

NodeOf read_nodes(const std::string& root) {
  NodeOf node_of;
  const std::string folder = root + "/sys/devices/system/node";
  for (const int node : list_of(folder + "/online")) {
    for (const int processor : list_of(fmt::format("{}/node{}/cpulist", folder, node))) node_of[processor] = node;
  }
  return node_of;
}

std::vector<int> read_allowed(const std::string& root) {
  for (const char* const who : {"thread-self", "self"}) {
    std::vector<int> allowed = parse_list(field_of(fmt::format("{}/proc/{}/status", root, who), "Cpus_allowed_list"));
    if (!allowed.empty()) return allowed;
  }
  return {};
}

// A kernel that does not know says -1.
int known_or_zero(std::optional<std::int64_t> number) {
  return static_cast<int>(std::max<std::int64_t>(number.value_or(0), 0));
}

Processor read_processor(const std::string& folder, int number, const NodeOf& node_of) {
  Processor processor{number, number, known_or_zero(number_of(folder + "/topology/physical_package_id")), 0};
  const std::vector<int> siblings = list_of(folder + "/topology/thread_siblings_list");
  if (!siblings.empty()) processor.core = siblings.front();
  if (const auto node = node_of.find(number); node != node_of.end()) processor.node = node->second;
  return processor;
}

CacheKind cache_kind(const std::string& text) {
  if (text == "Data") return CacheKind::Data;
  return text == "Instruction" ? CacheKind::Instruction : CacheKind::Unified;
}

// Caches of `number`, but for those that a lower processor has as well.
void read_caches(const std::string& folder, int number, std::vector<Cache>& caches) {
  for (const std::string& name : entries_of(folder + "/cache")) {
    const std::string cache = fmt::format("{}/cache/{}", folder, name);
    const auto level = number_of(cache + "/level");
    const auto kib = number_of(cache + "/size");  // "32K"
    if (!level || !kib) continue;
    std::vector<int> sharers = list_of(cache + "/shared_cpu_list");
    if (sharers.empty()) sharers = {number};
    if (sharers.front() != number) continue;
    caches.push_back({static_cast<int>(*level), cache_kind(line_of(cache + "/type")),
                      static_cast<std::size_t>(*kib) * 1024, std::move(sharers)});
  }
}

}  // namespace

void read_processors(const std::string& root, Topology& topology) {
  topology.allowed = read_allowed(root);
  const std::string folder = root + "/sys/devices/system/cpu";
  std::vector<int> online = list_of(folder + "/online");
  if (online.empty()) {
    topology.unknown.push_back(folder + " cannot be read: packages, NUMA nodes and caches are not known");
    online = topology.allowed.empty() ? std::vector<int>{0} : topology.allowed;
  }
  if (topology.allowed.empty()) topology.allowed = online;
  const NodeOf node_of = read_nodes(root);
  for (const int number : online) {
    const std::string own = fmt::format("{}/cpu{}", folder, number);
    topology.processors.push_back(read_processor(own, number, node_of));
    read_caches(own, number, topology.caches);
  }
  std::sort(topology.processors.begin(), topology.processors.end(), [](const Processor& a, const Processor& b) {
    return std::tie(a.package, a.node, a.core, a.number) < std::tie(b.package, b.node, b.core, b.number);
  });
  std::sort(topology.caches.begin(), topology.caches.end(), [](const Cache& a, const Cache& b) {
    return std::tie(a.level, a.kind, a.processors) < std::tie(b.level, b.kind, b.processors);
  });
}

}  // namespace wreath
