// Records how long a producer takes to copy into slots, by two ways of copying.
#pragma once

#include <cstdint>

namespace wreath {

// Records times of copies by the usual way and by another one, and which way is taken. Times are in cycles per KiB, of
// the last three timed copies; 0 when unknown.
struct FillHistory {
  std::uint32_t usual[3] = {};
  std::uint32_t other[3] = {};
  // Counts the copies until the next trial of the way that is not taken ends; 0 when none was counted yet.
  std::uint32_t turns = 0;
  bool takes_other = false;  // the way of all copies but trials
};

}  // namespace wreath
