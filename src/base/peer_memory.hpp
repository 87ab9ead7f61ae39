// Reading the memory of another process of this host in one copy, by the kernel (process_vm_readv).
#pragma once

#include <cerrno>
#include <cstddef>

#include "wreath/fifo.hpp"

namespace wreath {

inline constexpr int kOwnTarget = -EFAULT;

// target = the `bytes` bytes at `address` of `process`. 0, or an errno: EFAULT, it has no readable memory there (any
// more); kOwnTarget, this process has no writable memory at `target`; ESRCH, it is gone, or this process does not know
// it by that number; EPERM, ENOSYS, ...: the kernel refuses. `target` may have been written then.
int read_peer(const ProcessMemory& process, std::byte* target, const std::byte* address, std::size_t bytes);

}  // namespace wreath
