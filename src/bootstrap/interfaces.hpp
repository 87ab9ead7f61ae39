// The network interfaces of this host, and which of them a job may use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/socket.hpp"
#include "wreath/result.hpp"

namespace wreath {

// An address of an interface; one with several addresses comes several times. Link-local IPv6 addresses, which mean
// nothing without a zone, are left out.
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
// loopback, and not a bridge to containers or guests of this host. StartupFailed when the variable admits none.
Result<std::vector<SocketAddress>> chosen_addresses(const std::vector<Interface>& all, int family);

// "10.0.0.2 (eth0)": where connections to `address` leave this host; empty: there is no way.
std::string way_to(const SocketAddress& address);

}  // namespace wreath
