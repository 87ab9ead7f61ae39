// Ranks that meet through a file which all can read: it holds a unique id, so who can read it may join.
#pragma once

#include <string>

#include "src/bootstrap/bootstrap.hpp"

namespace wreath {

// Rank 0 writes the file, over an old one, mode 0600, and removes it when the start is over; the others wait for one
// that leads to a meeting, within the request's time. Other hosts reach rank 0 at the first address of an interface
// that WREATH_SOCKET_IFNAME admits.
Result<Membership> join_file(const std::string& path, const BootstrapRequest& request);

}  // namespace wreath
