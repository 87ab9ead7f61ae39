// Lists the network interfaces of this host.
#pragma once

#include <string>
#include <vector>

#include "src/base/socket.hpp"

namespace wreath {

// Describes an address of an interface; an interface with several addresses is listed several times.
struct Interface {
  std::string name;
  SocketAddress address;
  // Is true for an interface that is up and has a carrier.
  bool running = false;
  bool loopback = false;
};

std::vector<Interface> interfaces();

// Returns the name of the interface in `all` that has `address`; empty where there is none.
std::string interface_of(const std::vector<Interface>& all, const SocketAddress& address);

}  // namespace wreath
