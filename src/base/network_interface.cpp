// Lists the network interfaces by getifaddrs().
#include "src/base/network_interface.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>

namespace wreath {
namespace {

socklen_t length_of(const sockaddr* address) {
  return address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
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
    constexpr unsigned kRunning = IFF_UP | IFF_RUNNING;
    all.push_back({entry->ifa_name, SocketAddress(address, length_of(address)).with_port(0),
                   (entry->ifa_flags & kRunning) == kRunning, (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return all;
}

std::string interface_of(const std::vector<Interface>& all, const SocketAddress& address) {
  const std::string text = address.ip_text();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Interface& one) { return one.address.ip_text() == text; });
  return found == all.end() ? std::string() : found->name;
}

}  // namespace wreath
