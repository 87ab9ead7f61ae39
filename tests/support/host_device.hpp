// Says whether the build has devices, for tests that run on the CPU, too.
#pragma once

#include <cstddef>
#include <cstring>

#include "wreath/device.hpp"

namespace wreath::test {

inline bool has_host_device() {
  static const bool has = static_cast<bool>(host_device().make_event());
  return has;
}

// Copies between any memory of the build.
inline Status copy_bytes(void* target, const void* source, std::size_t bytes) {
  if (has_host_device()) return host_device().copy(target, source, bytes);
  if (bytes > 0) std::memcpy(target, source, bytes);
  return {};
}

// Says why a test of a device is skipped.
inline constexpr const char* kNeedsDevices = "this build has no devices: run it in one of cmake -DWREATH_DEVICE=ON";

}  // namespace wreath::test
