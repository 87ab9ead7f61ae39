// Gets random bytes of the system: see random.hpp.
#include "src/base/random.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "src/base/fd.hpp"
#include "src/base/log.hpp"

namespace wreath {
namespace {

// Reads by `read_some` until all bytes are there; returns false where it refuses.
template <typename Read>
bool fill(std::span<std::byte> bytes, Read read_some) {
  while (!bytes.empty()) {
    const ssize_t got = read_some(bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace

void fill_random(std::span<std::byte> bytes) {
  if (fill(bytes, [](void* to, std::size_t most) { return ::getrandom(to, most, 0); })) return;
  const int refused = errno;
  const Fd file(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
  if (file && fill(bytes, [&](void* to, std::size_t most) { return ::read(file.get(), to, most); })) return;
  log_error("the system gives no random bytes: getrandom: {}; /dev/urandom: {}", std::strerror(refused),
            std::strerror(errno));
  std::abort();
}

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  fill_random(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace wreath
