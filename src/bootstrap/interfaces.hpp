// The network interfaces of this host, and which of them a job may use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/socket.hpp"
#include "wreath/result.hpp"

namespace wreath {

// An address of an interface; one with several addresses comes several times.
struct Interface {
  std::string name;
  SocketAddress address;
  bool running = false;  // up, and with a carrier
  bool loopback = false;
};

std::vector<Interface> interfaces();

// Which of `all` has `address`; empty: none.
std::string interface_of(const std::vector<Interface>& all, const SocketAddress& address);

// Whether a choice as NCCL writes it admits an interface: prefixes, comma-separated; "=" before them: whole names; "^"
// before that: all but these. An empty choice admits all.
bool admits(std::string_view choice, std::string_view name);

// Running interfaces of `all` that WREATH_SOCKET_IFNAME admits, those of `family` first; without it those that are not
// loopback, and not a bridge to containers or guests of this host. A link-local address is one of them where the
// variable admits its interface, and that has no other. StartupFailed when the variable admits none.
Result<std::vector<SocketAddress>> chosen_addresses(const std::vector<Interface>& all, int family);

// Whether the loopback address is what `host` says: "localhost" and the like, or an IP address.
bool means_itself(const std::string& host);

// Where this host finds `host`, a name or an IP address. Another name that means nothing but the loopback address here,
// as distributions let a host's own, has the chosen addresses, too: other hosts know it by one of these.
Result<std::vector<SocketAddress>> addresses_of_host(const std::string& host, std::uint16_t port);

// A link-local address that names no interface, once for each that may lead to it: `first`, where that is not 0, then
// others that run and WREATH_SOCKET_IFNAME admits. Other addresses are what they are.
std::vector<SocketAddress> with_zones(const SocketAddress& address, std::uint32_t first = 0);
// Errors say this where there is no such interface.
Error no_way_to(std::string_view link_local);

// "10.0.0.2 (eth0)": where connections to `address` leave this host; empty: there is no way.
std::string way_to(const SocketAddress& address);

}  // namespace wreath
