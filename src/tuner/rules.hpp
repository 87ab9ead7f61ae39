// Gives the rules: which row and tile for which size, per collective and kind of links.
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>

#include "wreath/types.hpp"

namespace wreath {

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * kKiB;
inline constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// Is a rule for calls of up to `bytes` bytes. A row that does not exist or serve is no error: see choose().
struct Rule {
  std::size_t bytes;
  std::string_view algorithm;
  std::size_t tile_bytes;
};

struct RuleKey {
  Collective collective;
  int ranks;
  bool all_mapped;
  // Ranks wait for each other's cores, so that fewer messages count more than fewer rounds.
  bool crowded = false;
};

// Returns the first rule of the table whose bytes are enough; the last one takes all.
const Rule& rule_of(const RuleKey& key, std::size_t bytes) noexcept;

}  // namespace wreath
