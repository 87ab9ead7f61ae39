// Chooses among the network interfaces of this host: see interfaces.hpp.
#include "src/bootstrap/interfaces.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>

#include "src/base/config.hpp"
#include "src/base/name_choice.hpp"

namespace wreath {
namespace {

constexpr std::string_view kBridges = "^docker,br-,virbr,veth,cni,lxc,podman";

std::string names(const std::vector<Interface>& all) {
  std::vector<std::string> texts;
  for (const Interface& one : all)
    texts.push_back(fmt::format("{} {}{}", one.name, one.address.ip_text(), one.running ? "" : " (down)"));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

// Returns whether the interface has an address that is not link-local. A link-local address is of use only where
// nothing else leads to other hosts.
bool has_other_address(const std::vector<Interface>& all, const Interface& one) {
  return std::any_of(all.begin(), all.end(),
                     [&](const Interface& other) { return other.name == one.name && !other.address.is_link_local(); });
}

bool chosen(const std::vector<Interface>& all, const Interface& one, std::string_view choice) {
  if (!one.running) return false;
  if (choice.empty()) return !one.loopback && !one.address.is_link_local() && admits(kBridges, one.name);
  return admits(choice, one.name) && !(one.address.is_link_local() && has_other_address(all, one));
}

}  // namespace

Result<std::vector<SocketAddress>> chosen_addresses(const std::vector<Interface>& all, int family) {
  const std::string choice = setting_text(Setting::SocketInterface);
  std::vector<SocketAddress> addresses;
  for (const Interface& one : all) {
    if (chosen(all, one, choice)) addresses.push_back(one.address);
  }
  // A choice that only leaves interfaces out does not ask for loopback, which leads to no other host.
  if (choice.starts_with('^') && !std::ranges::all_of(addresses, &SocketAddress::is_loopback))
    std::erase_if(addresses, &SocketAddress::is_loopback);
  std::stable_partition(addresses.begin(), addresses.end(),
                        [&](const SocketAddress& address) { return address.family() == family; });
  if (!addresses.empty() || choice.empty()) return addresses;
  return Error{ErrorCode::StartupFailed,
               fmt::format("WREATH_SOCKET_IFNAME={} admits no interface that is up and has an address; there are: {}",
                           choice, names(all))};
}

Error no_way_to(std::string_view link_local) {
  return {
      ErrorCode::StartupFailed,
      fmt::format("{} means something on one network alone, and no interface of this host leads to such addresses{}",
                  link_local, is_set(Setting::SocketInterface) ? " that WREATH_SOCKET_IFNAME admits" : "")};
}

bool means_itself(const std::string& host) {
  return host.starts_with("localhost") || host.starts_with("ip6-lo") || SocketAddress::parse_ip(host, 0);
}

Result<std::vector<SocketAddress>> addresses_of_host(const std::string& host, std::uint16_t port) {
  auto found = resolve(host, port);
  if (!found) return found;
  std::vector<SocketAddress> addresses;
  for (const SocketAddress& address : *found) std::ranges::copy(with_zones(address), std::back_inserter(addresses));
  if (addresses.empty()) return no_way_to(host);
  if (means_itself(host) || !std::ranges::all_of(addresses, &SocketAddress::is_loopback)) return addresses;
  const auto own = chosen_addresses(interfaces(), AF_INET);
  if (!own) return own.error();
  for (const SocketAddress& address : *own) addresses.push_back(address.with_port(port));
  return addresses;
}

std::vector<SocketAddress> with_zones(const SocketAddress& address, std::uint32_t first) {
  if (!address.is_link_local() || address.zone() != 0) return {address};
  const std::string choice = setting_text(Setting::SocketInterface);
  std::vector<std::uint32_t> zones;
  if (first != 0) zones.push_back(first);
  for (const Interface& one : interfaces()) {
    const std::uint32_t zone = one.address.zone();
    const bool leads = zone != 0 && one.running && admits(choice, one.name);
    if (leads && std::ranges::find(zones, zone) == zones.end()) zones.push_back(zone);
  }
  std::vector<SocketAddress> addresses;
  for (const std::uint32_t zone : zones) addresses.push_back(address.with_zone(zone));
  return addresses;
}

std::string way_to(const SocketAddress& address) {
  if (address.ip_bytes().empty()) return {};
  // Connecting this socket sends nothing.
  const Fd probe(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe || ::connect(probe.get(), address.get(), address.length()) != 0) return {};
  const SocketAddress from = local_address(probe.get());
  const std::string name = interface_of(interfaces(), from);
  return name.empty() ? from.ip_text() : fmt::format("{} ({})", from.ip_text(), name);
}

}  // namespace wreath
