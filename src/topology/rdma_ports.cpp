// Chooses ports and GIDs: see rdma_ports.hpp.
#include "src/topology/rdma_ports.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "src/base/name_choice.hpp"
#include "src/topology/parts.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

bool has_prefix(const Gid& gid, std::initializer_list<std::uint8_t> prefix) {
  return std::equal(prefix.begin(), prefix.end(), gid.begin());
}

bool is_link_local_gid(const Gid& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0U) == 0x80; }

// Returns a GID's worth on Ethernet: the best is the largest.
auto worth_of(const GidEntry& entry) {
  const int type = entry.type == GidType::RoceV2 ? 2 : entry.type == GidType::Unknown ? 1 : 0;
  const int address = is_ipv4(entry.gid) ? 2 : is_link_local_gid(entry.gid) ? 0 : 1;
  return std::tuple(type, address);
}

std::string all_ports(const std::vector<PortFacts>& ports) {
  std::vector<std::string> texts;
  for (const PortFacts& port : ports) texts.push_back(fmt::format("{} {}", port_text(port), port.state));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::string port_text(const PortFacts& port) { return fmt::format("{} port {}", port.device, port.number); }

bool is_ipv4(const Gid& gid) { return has_prefix(gid, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}); }

std::string gid_address(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool four = is_ipv4(gid);
  ::inet_ntop(four ? AF_INET : AF_INET6, gid.data() + (four ? 12 : 0), text.data(), text.size());
  return text.data();
}

Result<std::size_t> choose_port(const std::vector<PortFacts>& ports, std::string_view choice,
                                const std::vector<int>& nodes, int rank) {
  std::vector<std::size_t> admitted;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (admits(choice, ports[i].device, ports[i].number)) admitted.push_back(i);
  }
  if (admitted.empty()) {
    return Error{ErrorCode::StartupFailed, fmt::format("WREATH_HCA={} admits no port of an RDMA adapter; there are: {}",
                                                       choice, all_ports(ports))};
  }
  std::erase_if(admitted, [&](std::size_t i) { return !ports[i].active(); });
  if (admitted.empty()) {
    return Error{ErrorCode::Unavailable,
                 fmt::format("no port is active: {}; look at its cable and interface (ip link set ... up), and on "
                             "InfiniBand that a subnet manager runs",
                             all_ports(ports))};
  }
  const auto worth = [&](std::size_t i) {
    const bool near = std::find(nodes.begin(), nodes.end(), ports[i].node) != nodes.end();
    return std::tuple(ports[i].rate_mbit, near ? 2 : ports[i].node < 0 ? 1 : 0);
  };
  const auto best = worth(*std::max_element(admitted.begin(), admitted.end(),
                                            [&](std::size_t a, std::size_t b) { return worth(a) < worth(b); }));
  std::erase_if(admitted, [&](std::size_t i) { return worth(i) != best; });
  return admitted[static_cast<std::size_t>(rank) % admitted.size()];
}

GidType gid_type_of(std::string_view text) {
  return text.ends_with("RoCE v2") ? GidType::RoceV2 : text.ends_with("RoCE v1") ? GidType::RoceV1 : GidType::Unknown;
}

std::vector<GidEntry> best_gids(std::vector<GidEntry> gids, bool infiniband) {
  if (gids.empty() || infiniband) return gids;
  const auto best = worth_of(*std::ranges::max_element(gids, {}, worth_of));
  std::erase_if(gids, [&](const GidEntry& entry) { return worth_of(entry) != best; });
  return gids;
}

Result<GidEntry> choose_gid(const PortFacts& port, int index) {
  const auto& gids = port.gids;
  if (index >= 0) {
    const auto found = std::find_if(gids.begin(), gids.end(), [&](const GidEntry& one) { return one.index == index; });
    if (found != gids.end()) return *found;
    return Error{ErrorCode::StartupFailed, fmt::format("WREATH_IB_GID_INDEX={}: {} has no such GID; `wreath topo` "
                                                       "lists them",
                                                       index, port_text(port))};
  }
  if (gids.empty() && port.infiniband) return GidEntry{0, {}, GidType::InfiniBand};
  if (gids.empty()) {
    return Error{ErrorCode::Unavailable,
                 fmt::format("{} has no GID: give its interface an IP address (ip addr add ...)", port_text(port))};
  }
  return best_gids(gids, port.infiniband).front();
}

std::vector<int> own_nodes() {
  Topology topology;
  read_processors("", topology);
  std::vector<int> nodes;
  for (const Processor& processor : topology.processors) {
    if (std::ranges::binary_search(topology.allowed, processor.number)) nodes.push_back(processor.node);
  }
  return nodes;
}

std::uint32_t rate_of(unsigned width, unsigned speed) {
  struct Step {
    unsigned code;
    std::uint32_t value;
  };
  constexpr Step kLanes[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
  constexpr Step kMegabits[] = {{1, 2'500},   {2, 5'000},   {4, 10'000},  {8, 10'000},
                                {16, 14'000}, {32, 25'000}, {64, 50'000}, {128, 100'000}};
  std::uint32_t lanes = 0;
  for (const Step& step : kLanes) lanes = step.code == width ? step.value : lanes;
  for (const Step& step : kMegabits) {
    if (step.code == speed) return lanes * step.value;
  }
  return 0;
}

std::string lock_complaint(std::uint64_t bytes, std::uint64_t limit) {
  if (bytes <= limit) return {};
  return fmt::format(
      "this process may lock {} of memory, and {} are to be locked: raise the limit (ulimit -l "
      "unlimited, LimitMEMLOCK=infinity in a service, docker run --ulimit memlock=-1)",
      format_bytes(limit), format_bytes(bytes));
}

}  // namespace wreath
