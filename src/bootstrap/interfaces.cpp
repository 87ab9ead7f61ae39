// The network interfaces of this host: see interfaces.hpp.
#include "src/bootstrap/interfaces.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <memory>

#include "src/base/config.hpp"

namespace wreath {
namespace {

constexpr std::string_view kBridges = "^docker,br-,virbr,veth,cni,lxc,podman";

bool link_local(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

socklen_t length_of(const sockaddr* address) {
  return address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

std::string names(const std::vector<Interface>& all) {
  std::vector<std::string> texts;
  for (const Interface& one : all)
    texts.push_back(fmt::format("{} {}{}", one.name, one.address.ip_text(), one.running ? "" : " (down)"));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::vector<Interface> interfaces() {
  std::vector<Interface> all;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return all;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const sockaddr* const address = entry->ifa_addr;
    if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) continue;
    if (link_local(address)) continue;
    constexpr unsigned kRunning = IFF_UP | IFF_RUNNING;
    all.push_back({entry->ifa_name, SocketAddress(address, length_of(address)).with_port(0),
                   (entry->ifa_flags & kRunning) == kRunning, (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return all;
}

bool admits(std::string_view choice, std::string_view name) {
  if (choice.empty()) return true;
  const bool except = choice.starts_with('^');
  if (except) choice.remove_prefix(1);
  const bool whole = choice.starts_with('=');
  if (whole) choice.remove_prefix(1);
  bool named = false;
  while (!choice.empty()) {
    const std::string_view one = choice.substr(0, choice.find(','));
    if (!one.empty()) named = named || (whole ? name == one : name.starts_with(one));
    choice.remove_prefix(std::min(choice.size(), one.size() + 1));
  }
  return named != except;
}

Result<std::vector<SocketAddress>> chosen_addresses(const std::vector<Interface>& all, int family) {
  const std::string choice = setting_text(Setting::SocketInterface);
  std::vector<SocketAddress> addresses;
  for (const Interface& one : all) {
    const bool wanted = choice.empty() ? !one.loopback && admits(kBridges, one.name) : admits(choice, one.name);
    if (one.running && wanted) addresses.push_back(one.address);
  }
  std::stable_partition(addresses.begin(), addresses.end(),
                        [&](const SocketAddress& address) { return address.family() == family; });
  if (!addresses.empty() || choice.empty()) return addresses;
  return Error{ErrorCode::StartupFailed,
               fmt::format("WREATH_SOCKET_IFNAME={} admits no interface that is up and has an address; there are: {}",
                           choice, names(all))};
}

std::string interface_of(const std::vector<Interface>& all, const SocketAddress& address) {
  const std::string text = address.ip_text();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Interface& one) { return one.address.ip_text() == text; });
  return found == all.end() ? std::string() : found->name;
}

std::string way_to(const SocketAddress& address) {
  if (address.ip_bytes().empty()) return {};
  const Fd probe(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));  // connecting it sends nothing
  if (!probe || ::connect(probe.get(), address.get(), address.length()) != 0) return {};
  const SocketAddress from = local_address(probe.get());
  const std::string name = interface_of(interfaces(), from);
  return name.empty() ? from.ip_text() : fmt::format("{} ({})", from.ip_text(), name);
}

}  // namespace wreath
