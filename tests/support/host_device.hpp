// Says whether the build has devices, for tests that are of the CPU, too.
#pragma once

#include "wreath/device.hpp"

namespace wreath::test {

inline bool has_host_device() {
  static const bool has = static_cast<bool>(host_device().make_event());
  return has;
}

// Why a test of a device is skipped.
inline constexpr const char* kNoDevices = "this build has no devices: run it in one of cmake -DWREATH_DEVICE=ON";

}  // namespace wreath::test
