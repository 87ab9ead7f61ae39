// Reads the memory of another process of this host in one copy, by the kernel (process_vm_readv).
#pragma once

#include <cerrno>
#include <cstddef>

#include "wreath/fifo.hpp"

namespace wreath {

inline constexpr int kOwnTarget = -EFAULT;

// Copies the `bytes` bytes at `address` of `process` to `target`. Returns 0, or an errno; `target` may have been
// written then. EFAULT: the process has no readable memory there (any more). kOwnTarget: this process has no writable
// memory at `target`. ESRCH: the process is gone, or this process does not know it by that number. EPERM, ENOSYS, ...:
// the kernel refuses.
int read_peer(const ProcessMemory& process, std::byte* target, const std::byte* address, std::size_t bytes);

}  // namespace wreath
