// Finds the network interfaces of this host that a job may use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/network_interface.hpp"
#include "src/base/socket.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Returns running interfaces of `all` that WREATH_SOCKET_IFNAME admits, those of `family` first. Without the variable
// these are neither loopback nor bridges to containers or guests of this host. A link-local address is included where
// the variable admits its interface and the interface has no other. Fails with StartupFailed when the variable admits
// none.
Result<std::vector<SocketAddress>> chosen_addresses(const std::vector<Interface>& all, int family);

// Returns whether `host` may mean the loopback address by itself: it is "localhost" or the like, or an IP address.
bool means_itself(const std::string& host);

// Returns the addresses where this host finds `host`, a name or an IP address. Another name than "localhost" may mean
// nothing but the loopback address here, as distributions configure it for a host's own name. Then the chosen addresses
// are added: other hosts know the host by one of these.
Result<std::vector<SocketAddress>> addresses_of_host(const std::string& host, std::uint16_t port);

// Returns a link-local address that names no interface once for each interface that may lead to it. The zone `first`
// comes first, where it is not 0. Others run, and WREATH_SOCKET_IFNAME admits them. Any other address is returned
// unchanged.
std::vector<SocketAddress> with_zones(const SocketAddress& address, std::uint32_t first = 0);
// Returns the error for a link-local address where no such interface leads to it.
Error no_way_to(std::string_view link_local);

// Returns where connections to `address` leave this host, such as "10.0.0.2 (eth0)"; empty where there is no way.
std::string way_to(const SocketAddress& address);

}  // namespace wreath
