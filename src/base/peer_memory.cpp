// Reads memory of another process: see peer_memory.hpp. One call reads data and token, so that both come from the same
// process.
#include "src/base/peer_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace wreath {
namespace {

// Drops the const: the kernel writes to no iovec of the other side.
iovec part(const void* data, std::size_t bytes) { return {const_cast<void*>(data), bytes}; }

// Finds which end an EFAULT is about. The kernel may mean either, so this end is tried alone.
int whose_fault(std::byte* target, std::size_t bytes) {
  const iovec own = part(target, bytes);
  const ssize_t moved = ::process_vm_readv(::getpid(), &own, 1, &own, 1, 0);
  return moved == static_cast<ssize_t>(bytes) ? EFAULT : kOwnTarget;
}

}  // namespace

int read_peer(const ProcessMemory& process, std::byte* target, const std::byte* address, std::size_t bytes) {
  std::uint64_t token = 0;
  const iovec here[] = {part(target, bytes), part(&token, sizeof token)};
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto* const token_there = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(process.token_address));
  const iovec there[] = {part(address, bytes), part(token_there, sizeof token)};
  const ssize_t read = ::process_vm_readv(process.number, here, 2, there, 2, 0);
  if (read < 0 && errno != EFAULT) return errno;
  if (read < 0 || static_cast<std::size_t>(read) != bytes + sizeof token) return whose_fault(target, bytes);
  return token == process.token ? 0 : ESRCH;
}

}  // namespace wreath
