// Identifies this process to other ranks: by its host, and by a process number that no other process has.
#pragma once

#include <cstdint>
#include <string>

#include "wreath/result.hpp"

namespace wreath {

// Identifies this host. Two processes have the same number exactly when kernel, network namespace (abstract UNIX
// sockets), /dev/shm and NCCL_HOSTID are the same for both. Containers that cannot share memory are different hosts.
std::uint64_t host_id();

// Fails, with the reason, where host_id() lacks a descriptor and so cannot tell hosts apart.
Status tell_hosts_apart();

// Returns a random number, one per process; a forked child has another.
std::uint64_t process_id();

std::string host_name();

}  // namespace wreath
