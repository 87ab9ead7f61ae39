// Reads network interfaces and RDMA devices from /sys/class, and addresses from the kernel.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <memory>
#include <system_error>

#include "src/base/printable.hpp"
#include "src/base/socket.hpp"
#include "src/topology/kernel_files.hpp"
#include "src/topology/parts.hpp"

namespace wreath {
namespace {

bool exists(const std::string& path) {
  std::error_code none;
  return std::filesystem::exists(path, none);
}

// Returns whether the path is a folder: the kernel has files among its interfaces, too.
bool is_folder(const std::string& path) {
  std::error_code none;
  return std::filesystem::is_directory(path, none);
}

std::string kind_of(const std::string& folder) {
  constexpr std::int64_t kInfiniband = 32;
  constexpr std::int64_t kLoopback = 772;
  const auto type = number_of(folder + "/type");
  if (type == kLoopback) return "loopback";
  if (exists(folder + "/bridge")) return "bridge";
  if (exists(folder + "/bonding")) return "bond";
  if (!exists(folder + "/device")) return "virtual";
  return type == kInfiniband ? "infiniband" : "ethernet";
}

NetworkInterface read_interface(const std::string& folder, const std::string& name) {
  NetworkInterface interface;
  interface.name = printable(name);
  interface.kind = kind_of(folder);
  interface.state = line_of(folder + "/operstate");
  interface.speed_mbit = std::max<std::int64_t>(number_of(folder + "/speed").value_or(0), 0);
  interface.mtu = static_cast<int>(number_of(folder + "/mtu").value_or(0));
  interface.driver = link_name(folder + "/device/driver");
  interface.place = read_place(folder + "/device");
  return interface;
}

// Returns the state in text such as "4: ACTIVE".
std::string port_state(const std::string& text) {
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

// Returns the short form of an address that the kernel writes as eight groups of four digits: "::ffff:10.0.0.1".
// Returns empty text for one that is all zeros or no address.
std::string short_address(const std::string& text) {
  in6_addr address{};
  if (::inet_pton(AF_INET6, text.c_str(), &address) != 1 || IN6_IS_ADDR_UNSPECIFIED(&address)) return {};
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  return ::inet_ntop(AF_INET6, &address, buffer.data(), buffer.size());
}

std::vector<RdmaGid> read_gids(const std::string& port) {
  std::vector<RdmaGid> gids;
  for (const std::string& entry : entries_of(port + "/gids")) {
    const std::vector<int> index = parse_list(entry);
    std::string address = short_address(line_of(fmt::format("{}/gids/{}", port, entry)));
    if (index.size() != 1 || address.empty()) continue;
    gids.push_back({index.front(), std::move(address), line_of(fmt::format("{}/gid_attrs/types/{}", port, entry)),
                    line_of(fmt::format("{}/gid_attrs/ndevs/{}", port, entry))});
  }
  return gids;
}

RdmaPort read_port(const std::string& folder, const std::string& name) {
  const std::vector<int> number = parse_list(name);
  return {number.empty() ? 0 : number.front(), port_state(line_of(folder + "/state")), line_of(folder + "/link_layer"),
          line_of(folder + "/rate"), read_gids(folder)};
}

RdmaDevice read_rdma(const std::string& folder, const std::string& name) {
  RdmaDevice device;
  device.name = printable(name);
  device.interfaces = entries_of(folder + "/device/net");
  for (std::string& interface : device.interfaces) interface = printable(interface);
  device.place = read_place(folder + "/device");
  device.driver = link_name(folder + "/device/driver");
  for (const std::string& port : entries_of(folder + "/ports")) {
    device.ports.push_back(read_port(fmt::format("{}/ports/{}", folder, port), port));
    for (const RdmaGid& gid : device.ports.back().gids) {
      const bool known =
          std::find(device.interfaces.begin(), device.interfaces.end(), gid.interface) != device.interfaces.end();
      if (!known && !gid.interface.empty()) device.interfaces.push_back(gid.interface);
    }
  }
  return device;
}

// Returns whether /sys shows the interface that the kernel gives this process: another namespace may have one of that
// name.
bool shown_in_sys(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || entry.ifa_addr->sa_family != AF_PACKET) return false;
  const auto& link = *reinterpret_cast<const sockaddr_ll*>(entry.ifa_addr);
  const std::string folder = fmt::format("/sys/class/net/{}", entry.ifa_name);
  const auto* const first = std::begin(link.sll_addr);
  const std::string address = fmt::format("{:02x}", fmt::join(first, first + std::min<int>(link.sll_halen, 8), ":"));
  const std::string shown = line_of(folder + "/address");
  return number_of(folder + "/ifindex") == link.sll_ifindex && shown.starts_with(address);
}

// Returns the interface of `address` in `present`. It is added there, where it is missing, as /sys shows it, else as
// the kernel's flags do.
NetworkInterface& find_or_add(std::vector<NetworkInterface>& present, const std::vector<NetworkInterface>& shown,
                              const ifaddrs& address) {
  const std::string name = printable(address.ifa_name);
  const auto is_it = [&](const NetworkInterface& interface) { return interface.name == name; };
  const auto found = std::find_if(present.begin(), present.end(), is_it);
  if (found != present.end()) return *found;
  const auto known = std::find_if(shown.begin(), shown.end(), is_it);
  if (known != shown.end() && shown_in_sys(address)) return present.emplace_back(*known);
  NetworkInterface& added = present.emplace_back();
  added.name = name;
  added.kind = (address.ifa_flags & IFF_LOOPBACK) != 0 ? "loopback" : "virtual";
  added.state = (address.ifa_flags & IFF_RUNNING) != 0 ? "up" : "down";
  return added;
}

}  // namespace

void read_networks(const std::string& root, Topology& topology) {
  const std::string interfaces = root + "/sys/class/net";
  for (const std::string& name : entries_of(interfaces)) {
    const std::string folder = fmt::format("{}/{}", interfaces, name);
    if (is_folder(folder)) topology.interfaces.push_back(read_interface(folder, name));
  }
  const std::string devices = root + "/sys/class/infiniband";
  for (const std::string& name : entries_of(devices)) {
    topology.rdma.push_back(read_rdma(fmt::format("{}/{}", devices, name), name));
  }
}

void match_namespace(Topology& topology) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    topology.unknown.push_back("getifaddrs: addresses of network interfaces are not known");
    return;
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, &::freeifaddrs);
  std::vector<NetworkInterface> present;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    NetworkInterface& interface = find_or_add(present, topology.interfaces, *at);
    const int family = at->ifa_addr == nullptr ? AF_UNSPEC : at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    interface.addresses.push_back(SocketAddress(at->ifa_addr, length).ip_text());
  }
  topology.interfaces = std::move(present);
}

}  // namespace wreath
