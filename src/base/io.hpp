// Writes all bytes to a descriptor, and reads what one has.
#pragma once

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
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

// Calls take(bytes) with what the stream has. It takes at most 1 MiB, since a stream that never ends must not keep
// others waiting. Returns false at the end of the stream, or where it cannot be read.
template <typename Take>
bool read_some(int descriptor, Take take) {
  std::array<char, 65536> bytes;
  for (int turns = 0; turns < 16; ++turns) {
    const ssize_t got = ::read(descriptor, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    take(std::string_view(bytes.data(), static_cast<std::size_t>(got)));
  }
  return true;
}

}  // namespace wreath
