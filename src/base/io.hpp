// Writes all bytes to a descriptor.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace wreath {

// Writes all of `bytes`, through interruptions. Returns false with errno set when the system refuses.
inline bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace wreath
