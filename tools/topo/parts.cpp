// Cuts a machine into parts and describes them.
#include "tools/topo/parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace wreath {
namespace {

// The GIDs of a port that its line shows. An adapter may have 256 of them.
constexpr std::size_t kShownGids = 2;

bool has(const std::vector<int>& numbers, int number) {
  return std::binary_search(numbers.begin(), numbers.end(), number);
}

const Cache* last_level_cache(const Topology& topology, int processor) {
  const Cache* last = nullptr;
  for (const Cache& cache : topology.caches) {
    if (has(cache.processors, processor) && (last == nullptr || cache.level > last->level)) last = &cache;
  }
  return last;
}

// Returns the last part where it has that number, else appends a part with that number.
template <typename Part>
Part& continued(std::vector<Part>& parts, int number) {
  if (parts.empty() || parts.back().number != number) parts.emplace_back().number = number;
  return parts.back();
}

CoreGroup& group_of(std::vector<CoreGroup>& groups, const Cache* cache) {
  const auto found =
      std::find_if(groups.begin(), groups.end(), [&](const CoreGroup& group) { return group.cache == cache; });
  if (found != groups.end()) return *found;
  groups.push_back({cache, {}});
  return groups.back();
}

void join(std::string& text, std::string_view more) {
  if (!more.empty()) text.append(text.empty() ? "" : ", ").append(more);
}

std::string speed_text(std::int64_t mbit) {
  if (mbit <= 0) return {};
  return mbit % 1000 == 0 ? fmt::format("{} Gbit/s", mbit / 1000) : fmt::format("{} Mbit/s", mbit);
}

// Describes the network device that is nearest to a GPU; empty: none is near.
std::string nearest_network(const Topology& topology, const Gpu& gpu) {
  PciDistance least = PciDistance::OtherNode;
  std::string nearest;
  const auto look = [&](const PciPlace& place, const std::string& device) {
    const PciDistance distance = pci_distance(gpu.place, place);
    if (distance >= least) return;
    least = distance;
    nearest = device;
  };
  for (const RdmaDevice& device : topology.rdma) look(device.place, device.name);
  for (const NetworkInterface& interface : topology.interfaces) look(interface.place, interface.name);
  return nearest.empty() ? nearest : fmt::format("nearest network {} {}", nearest, name(least));
}

// Returns a text such as "to GPU 1-7 by NVLink 4 x18". It names every other GPU, and joins GPUs with the same link.
std::string links_of(const Topology& topology, int gpu) {
  std::vector<std::pair<std::string, std::vector<int>>> ways;
  for (const GpuLink& link : topology.gpu_links) {
    if (link.first != gpu && link.second != gpu) continue;
    const std::string way = link_text(link);
    auto found = std::find_if(ways.begin(), ways.end(), [&](const auto& each) { return each.first == way; });
    if (found == ways.end()) found = ways.insert(ways.end(), {way, {}});
    found->second.push_back(link.first == gpu ? link.second : link.first);
  }
  std::string text;
  for (const auto& [way, others] : ways) join(text, fmt::format("to GPU {} by {}", format_list(others), way));
  return text;
}

DeviceLine line_of(const Topology& topology, const Gpu& gpu, std::size_t index) {
  DeviceLine line{DeviceLine::Kind::Gpu, gpu.place.node, fmt::format("GPU {}", index), gpu.name, !gpu.driver.empty()};
  if (gpu.bytes > 0) join(line.text, size_text(gpu.bytes));
  if (gpu.driver.empty()) join(line.text, "no driver");
  join(line.text, gpu.place.address);
  join(line.text, gpu.place.link);
  join(line.text, links_of(topology, static_cast<int>(index)));
  join(line.text, nearest_network(topology, gpu));
  return line;
}

DeviceLine line_of(const RdmaDevice& device) {
  DeviceLine line{DeviceLine::Kind::Rdma, device.place.node, device.name, "RDMA", false};
  for (const RdmaPort& port : device.ports) {
    join(line.text, fmt::format("port {} {}, {} {}", port.number, port.state, port.link_layer, port.rate));
    const std::vector<RdmaGid> gids = main_gids(port);
    for (std::size_t i = 0; i < std::min<std::size_t>(gids.size(), kShownGids); ++i) join(line.text, gid_text(gids[i]));
    if (gids.size() > kShownGids) join(line.text, fmt::format("and {} more", gids.size() - kShownGids));
    line.usable = line.usable || port.state == "ACTIVE";
  }
  if (!device.interfaces.empty()) join(line.text, fmt::format("interface {}", fmt::join(device.interfaces, " ")));
  join(line.text, device.driver);
  join(line.text, device.place.address);
  return line;
}

DeviceLine line_of(const NetworkInterface& interface) {
  DeviceLine line{DeviceLine::Kind::Interface, interface.place.node, interface.name, interface.kind,
                  interface.state != "down"};
  join(line.text, interface.state == "unknown" ? "" : interface.state);
  join(line.text, speed_text(interface.speed_mbit));
  if (interface.mtu > 0) join(line.text, fmt::format("mtu {}", interface.mtu));
  join(line.text, interface.driver);
  join(line.text, interface.place.address);
  for (const std::string& address : interface.addresses) join(line.text, address);
  return line;
}

}  // namespace

std::vector<int> CoreGroup::threads() const {
  std::vector<int> all;
  for (const std::vector<int>& core : cores) all.insert(all.end(), core.begin(), core.end());
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<PackagePart> packages_of(const Topology& topology) {
  const auto node_of = [&](int number) {
    const auto found = std::find_if(topology.nodes.begin(), topology.nodes.end(),
                                    [&](const NumaNode& node) { return node.number == number; });
    return found == topology.nodes.end() ? nullptr : &*found;
  };
  std::vector<PackagePart> packages;
  int core = -1;
  for (const Processor& processor : topology.processors) {
    NodePart& node = continued(continued(packages, processor.package).nodes, processor.node);
    node.node = node_of(processor.node);
    CoreGroup& group = group_of(node.groups, last_level_cache(topology, processor.number));
    if (processor.core != core || group.cores.empty()) group.cores.emplace_back();
    group.cores.back().push_back(processor.number);
    core = processor.core;
  }
  for (const NumaNode& node : topology.nodes) {
    if (!node.processors.empty()) continue;
    NodePart& part = continued(continued(packages, -1).nodes, node.number);
    part.node = &node;
  }
  return packages;
}

std::vector<DeviceLine> devices_of(const Topology& topology, std::vector<std::string>* hidden) {
  std::vector<DeviceLine> lines;
  for (std::size_t i = 0; i < topology.gpus.size(); ++i) lines.push_back(line_of(topology, topology.gpus[i], i));
  for (const RdmaDevice& device : topology.rdma) lines.push_back(line_of(device));
  for (const NetworkInterface& interface : topology.interfaces) {
    if (interface.kind == "virtual" && interface.addresses.empty()) {
      hidden->push_back(interface.name);
    } else {
      lines.push_back(line_of(interface));
    }
  }
  return lines;
}

bool is_allowed(const Topology& topology, int processor) { return has(topology.allowed, processor); }

std::string cache_text(const Cache& cache) {
  const char* const kind = cache.kind == CacheKind::Data ? "d" : cache.kind == CacheKind::Instruction ? "i" : "";
  return fmt::format("L{}{} {}", cache.level, kind, size_text(cache.bytes));
}

std::string near_caches_text(const Topology& topology, const CoreGroup& group) {
  std::string text;
  for (auto cache = topology.caches.rbegin(); cache != topology.caches.rend(); ++cache) {
    const bool near = has(cache->processors, group.cores.front().front()) && &*cache != group.cache;
    if (near) join(text, cache_text(*cache));
  }
  return text.empty() ? text : "each " + text;
}

}  // namespace wreath
