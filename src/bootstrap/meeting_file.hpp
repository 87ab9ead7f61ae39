// Joins ranks that meet through a file which all can read. It holds a unique id, so any process that can read it may
// join.
#pragma once

#include <cstdint>
#include <string>

#include "src/bootstrap/bootstrap.hpp"

namespace wreath {

// Returns whether the file system of `path` is one that hosts share, by its kind: NFS, Lustre, ... Others may be
// shared, too.
bool is_shared_storage(const std::string& path);
// Returns the same of a kind, as statfs numbers it.
bool is_shared_kind(std::uint32_t kind);

// Joins ranks through the file. Rank 0 writes it, over an old one, mode 0600, and removes it when the start is over.
// The others wait for a file that leads to a meeting, within the request's time. Other hosts reach rank 0 at the first
// address of an interface that WREATH_SOCKET_IFNAME admits.
Result<Membership> join_file(const std::string& path, const BootstrapRequest& request);

}  // namespace wreath
