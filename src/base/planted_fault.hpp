// Plants faults that show whether the tests catch what they are there for. A build with WREATH_PLANTED_FAULTS may have
// one of them, by its number in tests/planted_faults/faults.txt. No other build has any.
#pragma once

#include "wreath/host_device.hpp"

#if defined(WREATH_PLANTED_FAULTS)

#include <cstdlib>

namespace wreath {

// Returns whether the environment variable WREATH_PLANTED_FAULT is `number`. Only this build reads the variable, and
// once.
inline bool planted_fault(int number) noexcept {
  static const char* const text = std::getenv("WREATH_PLANTED_FAULT");
  static const int planted = text == nullptr ? 0 : std::atoi(text);
  return number == planted;
}

}  // namespace wreath

#else

namespace wreath {

WREATH_HOST_DEVICE constexpr bool planted_fault(int /*number*/) noexcept { return false; }

}  // namespace wreath

#endif
