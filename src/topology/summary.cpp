// Describes a machine in a line.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "src/topology/rdma_ports.hpp"
#include "wreath/topology.hpp"

namespace wreath {
namespace {

// Returns "1 core" or "2 cores".
std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

GidEntry entry_of(const RdmaGid& gid) {
  GidEntry entry{gid.index, {}, gid_type_of(gid.type)};
  ::inet_pton(AF_INET6, gid.address.c_str(), entry.gid.data());
  return entry;
}

}  // namespace

std::vector<RdmaGid> main_gids(const RdmaPort& port) {
  std::vector<GidEntry> entries;
  for (const RdmaGid& gid : port.gids) entries.push_back(entry_of(gid));
  const std::vector<GidEntry> best = best_gids(std::move(entries), port.link_layer != "Ethernet");
  std::vector<RdmaGid> gids = port.gids;
  std::erase_if(gids, [&](const RdmaGid& gid) { return !std::ranges::count(best, gid.index, &GidEntry::index); });
  return gids;
}

std::string gid_text(const RdmaGid& gid) {
  return fmt::format("gid {} {}{}{}{}{}", gid.index, gid.address, gid.type.empty() ? "" : " ", gid.type,
                     gid.interface.empty() ? "" : " on ", gid.interface);
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::string_view kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  const bool whole = value == std::floor(value);
  const int digits = whole || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, digits, kUnits[unit]);
}

std::string machine_text(const Topology& topology) {
  std::set<int> packages;
  std::set<int> cores;
  std::uint64_t bytes = 0;
  for (const Processor& processor : topology.processors) {
    packages.insert(processor.package);
    cores.insert(processor.core);
  }
  for (const NumaNode& node : topology.nodes) bytes += node.bytes;
  return fmt::format("{}, {}, {}, {}, {}", counted(packages.size(), "package"),
                     counted(topology.nodes.size(), "NUMA node"), counted(cores.size(), "core"),
                     counted(topology.processors.size(), "hardware thread"), size_text(bytes));
}

std::string process_text(const Topology& topology) {
  std::vector<int> allowed;
  std::set<int> cores;
  for (const Processor& processor : topology.processors) {
    if (!std::binary_search(topology.allowed.begin(), topology.allowed.end(), processor.number)) continue;
    allowed.push_back(processor.number);
    cores.insert(processor.core);
  }
  std::sort(allowed.begin(), allowed.end());
  std::string text = fmt::format("may run on {} ({} of {})", format_list(allowed),
                                 counted(allowed.size(), "hardware thread"), counted(cores.size(), "core"));
  if (topology.usable_cores < static_cast<int>(allowed.size())) {
    text += fmt::format(", {} at once by its control group's quota", topology.usable_cores);
  }
  constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};
  if (topology.available_bytes != kNoLimit) {
    text += fmt::format(", {} of memory can be had", size_text(topology.available_bytes));
  }
  return text;
}

}  // namespace wreath
