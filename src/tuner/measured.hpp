// Makes rules of a tuning: for each collective, number of ranks and kind of links, the fastest row and tile by size.
#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "wreath/algorithm.hpp"
#include "wreath/result.hpp"

namespace wreath {

struct Tuning;

// Describes a call; the fields are as TuningTime's.
struct MeasuredCall {
  Collective collective = Collective::AllReduce;
  int ranks = 2;
  std::string wire;
  bool device = false;
  std::size_t bytes = 0;
  auto operator<=>(const MeasuredCall&) const = default;
};

struct MeasuredRule {
  // The rule is for such calls of up to so many bytes.
  MeasuredCall most;
  const Algorithm* algorithm = nullptr;  // null: the library's own choice
  std::size_t tile_bytes = 0;            // 0: the library's own
};

class MeasuredRules {
 public:
  // The settings of rank 0 have room for so many.
  static constexpr std::size_t kMaximum = 500;

  // Makes rules of rows that `reproducible` communicators may use, or of all rows. Between measured sizes, a size
  // follows the nearest one (by ratio). Beyond them it does so where that is at most twice or half of it. Where sizes
  // up to 8 bytes or from 64 MiB were measured, it does so at any distance. The choice of the library's own rules stays
  // where nothing is clearly faster. Fails with InvalidArgument beyond kMaximum rules.
  static Result<MeasuredRules> of(const Tuning& tuning, bool reproducible);

  // Writes one rule a line.
  std::string to_text() const;
  // Reads text that to_text() wrote; fails with InvalidArgument where the text is no such table.
  static Result<MeasuredRules> parse(std::string_view text);

  // Returns the rule for a call; null where nothing was measured for such a call, or near its size.
  const MeasuredRule* find(const MeasuredCall& call) const noexcept;
  bool empty() const noexcept { return rules_.empty(); }

 private:
  std::vector<MeasuredRule> rules_;  // sorted by calls
};

}  // namespace wreath
