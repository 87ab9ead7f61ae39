// How long copies into slots take a producer, by both ways in which they are made.
#pragma once

#include <cstdint>

namespace wreath {

// What is known of copies made plainly and past the caches, and which way is taken for that. Times are in cycles a KiB,
// of the last three copies that were timed; 0 means not known yet.
struct FillHistory {
  std::uint32_t plain[3] = {};
  std::uint32_t past_caches[3] = {};
  std::uint32_t turns = 0;  // copies until the end of the next trial of the other way; 0: none was counted yet
  bool past = false;        // the way of all copies but trials
};

}  // namespace wreath
