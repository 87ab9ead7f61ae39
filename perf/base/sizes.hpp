// Message sizes in the form that a user writes, and the list of sizes of a run.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wreath/units.hpp"

namespace wreath::perf {

// Parses "4", "1K", "1.5M", "2G" or "64KiB": binary units in upper or lower case, and whole bytes. Returns nullopt when
// the text is none of these or does not fit.
std::optional<std::size_t> parse_size(std::string_view text);

// The sizes of a run in bytes: those of `list` where there are any, else from `minimum` to `maximum`. Each is `factor`
// times the last one where the factor is above 1, else `step` more. Each is rounded down to whole elements, and none is
// repeated.
struct SizeRange {
  std::size_t minimum = std::size_t{32} << 20;
  std::size_t maximum = std::size_t{32} << 20;
  std::size_t step = std::size_t{1} << 20;
  std::size_t factor = 1;
  std::vector<std::size_t> list = {};
};
std::vector<std::size_t> sizes_of(const SizeRange& range, std::size_t element_bytes);

}  // namespace wreath::perf
