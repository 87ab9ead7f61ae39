// What a tuning chooses: for each collective, number of ranks and kind of links, the fastest row and tile by size.
#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "wreath/algorithm.hpp"
#include "wreath/tuning.hpp"

namespace wreath {

// Fields as TuningTime's.
struct MeasuredCall {
  Collective collective = Collective::AllReduce;
  int ranks = 2;
  bool mapped = true;
  bool device = false;
  std::size_t bytes = 0;
  auto operator<=>(const MeasuredCall&) const = default;
};

struct MeasuredRule {
  MeasuredCall most;                     // for such calls of up to so many bytes
  const Algorithm* algorithm = nullptr;  // null: the library's own choice
  std::size_t tile_bytes = 0;            // 0: the library's own
};

class MeasuredRules {
 public:
  static constexpr std::size_t kMaximum = 500;  // what the settings of rank 0 have room for

  // Of rows that `reproducible` communicators may use, or of all. A size follows the nearest measured one (by ratio)
  // where that is at most twice or half of it; beyond 8 bytes and 64 MiB, any. What the library's own rules choose
  // stays where nothing is clearly faster. InvalidArgument beyond kMaximum.
  static Result<MeasuredRules> of(const Tuning& tuning, bool reproducible);

  // One rule a line, and back: InvalidArgument where the text is no such table.
  std::string to_text() const;
  static Result<MeasuredRules> parse(std::string_view text);

  // Null: nothing was measured for such a call, or near its size.
  const MeasuredRule* find(const MeasuredCall& call) const noexcept;
  bool empty() const noexcept { return rules_.empty(); }

 private:
  std::vector<MeasuredRule> rules_;  // sorted by calls
};

}  // namespace wreath
