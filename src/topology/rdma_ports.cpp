// Chooses ports and GIDs: see rdma_ports.hpp.
#include "src/topology/rdma_ports.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

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

// Adds those that a rank takes where ranks take turns, until there are `count`.
void take_turns(int rank, const std::vector<std::size_t>& among, std::size_t count, std::vector<std::size_t>& taken) {
  for (std::size_t i = 0; i < among.size() && taken.size() < count; ++i) {
    taken.push_back(among[(static_cast<std::size_t>(rank) + i) % among.size()]);
  }
}

// Peers' rails meet in this order, which is the same at all ranks that take the same adapters.
std::vector<std::size_t> in_order(std::vector<std::size_t> taken) {
  std::ranges::sort(taken);
  return taken;
}

constexpr std::uint8_t kMostMtu = 5;  // 4096 bytes

Error not_right(std::string_view what, std::uint64_t value, std::string_view rule) {
  return {ErrorCode::Mismatch, fmt::format("the peer's address: {} is {}, must be {}", what, value, rule)};
}

std::string_view type_name(GidType type) {
  switch (type) {
    case GidType::InfiniBand: return "InfiniBand";
    case GidType::RoceV1: return "RoCE v1";
    case GidType::RoceV2: return "RoCE v2";
    case GidType::Unknown: break;
  }
  return "of an unknown type";
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

Result<std::vector<std::size_t>> choose_ports(const std::vector<PortFacts>& ports, std::string_view choice,
                                              const std::vector<int>& nodes, int rank, std::size_t count) {
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
  std::vector<std::size_t> taken;
  while (taken.size() < count && !admitted.empty()) {
    const auto best = worth(*std::max_element(admitted.begin(), admitted.end(),
                                              [&](std::size_t a, std::size_t b) { return worth(a) < worth(b); }));
    std::vector<std::size_t> equals;
    std::ranges::copy_if(admitted, std::back_inserter(equals), [&](std::size_t i) { return worth(i) == best; });
    take_turns(rank, equals, count, taken);
    std::erase_if(admitted, [&](std::size_t i) { return worth(i) == best; });
  }
  return in_order(std::move(taken));
}

Result<std::vector<std::size_t>> choose_offered(const std::vector<OfferedAdapter>& all, std::string_view choice,
                                                std::string_view interfaces, int rank, std::size_t count) {
  std::vector<std::size_t> turns;
  std::vector<std::size_t> taken;
  std::vector<std::string> devices;
  std::size_t loopback = all.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const OfferedAdapter& each = all[i];
    if (std::ranges::find(devices, each.device) != devices.end()) continue;
    devices.push_back(each.device);
    if (!admits(each.sockets ? interfaces : choice, each.device)) continue;
    if (each.sockets && !each.loopback && taken.size() < count) taken.push_back(i);
    if (each.loopback) loopback = std::min(loopback, i);
    if (!each.sockets) turns.push_back(i);
  }
  if (taken.empty()) take_turns(rank, turns, count, taken);
  if (taken.empty() && loopback < all.size()) taken.push_back(loopback);
  if (!taken.empty()) return in_order(std::move(taken));
  return Error{ErrorCode::Unavailable,
               fmt::format("WREATH_HCA and WREATH_SOCKET_IFNAME admit none of {}", fmt::join(devices, ", "))};
}

GidType gid_type_of(std::string_view text) {
  return text.ends_with("RoCE v2") ? GidType::RoceV2 : text.ends_with("RoCE v1") ? GidType::RoceV1 : GidType::Unknown;
}

GidType gid_type_of(std::uint32_t number) {
  return number == 2 ? GidType::RoceV2 : number == 1 ? GidType::RoceV1 : GidType::InfiniBand;
}

Status check_end(const PortEnd& theirs) {
  const auto type = static_cast<std::uint8_t>(theirs.gid_type);
  if (theirs.mtu < 1 || theirs.mtu > kMostMtu) return not_right("its MTU", theirs.mtu, "1 to 5");
  if (type > static_cast<std::uint8_t>(GidType::RoceV2)) return not_right("the type of its GID", type, "0 to 3");
  if (theirs.infiniband && theirs.lid == 0) return not_right("its LID", 0, "above 0");
  if (!theirs.infiniband && theirs.gid == Gid{}) return not_right("its GID", 0, "above 0");
  return {};
}

Status check_pair(const PortEnd& own, const PortEnd& theirs) {
  const auto layer = [](const PortEnd& one) { return one.infiniband ? "InfiniBand" : "Ethernet"; };
  const auto differ = [](std::string_view what, std::string_view here, std::string_view there, std::string_view fix) {
    return Error{ErrorCode::Mismatch, fmt::format("{} is {} here and {} at the peer: {}", what, here, there, fix)};
  };
  if (own.infiniband != theirs.infiniband) {
    return differ("the port", layer(own), layer(theirs), "choose like ports by WREATH_HCA");
  }
  const bool types_known = own.gid_type != GidType::Unknown && theirs.gid_type != GidType::Unknown;
  if (!own.infiniband && types_known && own.gid_type != theirs.gid_type) {
    return differ("the GID", type_name(own.gid_type), type_name(theirs.gid_type), "choose one by WREATH_IB_GID_INDEX");
  }
  if (!own.infiniband && is_ipv4(own.gid) != is_ipv4(theirs.gid)) {
    return differ("the GID", gid_address(own.gid), gid_address(theirs.gid),
                  "give both interfaces addresses of one family, or choose them by WREATH_IB_GID_INDEX");
  }
  if (!theirs.active) return Error{ErrorCode::Unavailable, "the peer's port is down"};
  return {};
}

bool crosses_subnets(const PortEnd& own, const PortEnd& theirs) {
  return !std::equal(own.gid.begin(), own.gid.begin() + 8, theirs.gid.begin());
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

std::vector<int> nodes_to_be_near(const std::vector<PortFacts>& ports) {
  if (std::ranges::all_of(ports, [&](const PortFacts& each) { return each.node == ports[0].node; })) return {};
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

std::string port_state(int state) {
  constexpr std::string_view kStates[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
  return std::string(state >= 0 && state < std::ssize(kStates) ? kStates[state] : "of an unknown state");
}

std::uint64_t lock_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

std::string lock_complaint(std::uint64_t bytes, std::uint64_t limit) {
  if (bytes <= limit) return {};
  return fmt::format(
      "this process may lock {} of memory, and {} are to be locked: raise the limit (ulimit -l "
      "unlimited, LimitMEMLOCK=infinity in a service, docker run --ulimit memlock=-1)",
      format_bytes(limit), format_bytes(bytes));
}

}  // namespace wreath
