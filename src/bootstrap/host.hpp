// Who this process is to other ranks: its host, its process number that no other process has.
#pragma once

#include <cstdint>
#include <string>

#include "wreath/result.hpp"

namespace wreath {

// Equal for two processes exactly when they run on one kernel, in one network namespace (abstract
// UNIX sockets) and with one /dev/shm: containers that cannot share memory are different hosts.
std::uint64_t host_id();

// Without a descriptor to spare host_id() cannot tell: then this is the reason.
Status tell_hosts_apart();

// Random, one per process; a forked child has another.
std::uint64_t process_id();

std::string host_name();

}  // namespace wreath
