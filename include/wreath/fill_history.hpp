// Records how long a producer takes to copy into slots, by both ways of copying.
#pragma once

#include <cstdint>

namespace wreath {

// Records times of plain copies and of copies past the caches, and which way is taken. Times are in cycles per KiB, of
// the last three timed copies; 0 when unknown.
struct FillHistory {
  std::uint32_t plain[3] = {};
  std::uint32_t past_caches[3] = {};
  // Counts the copies until the next trial of the other way ends; 0 when none was counted yet.
  std::uint32_t turns = 0;
  bool past = false;  // the way of all copies but trials
};

}  // namespace wreath
