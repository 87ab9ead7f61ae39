// Message sizes: how a user writes them, and the list a run walks through.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wreath::perf {

// "4", "1K", "1.5M", "2G", "64KiB": binary units, upper or lower case, whole bytes. nullopt when it
// is none of these or does not fit.
std::optional<std::size_t> parse_size(std::string_view text);

// The shortest exact way to write it: "256K", "100".
std::string format_size(std::size_t bytes);

// The sizes of a run in bytes: those of `list` where there are any, else from `minimum` to `maximum`, times `factor`
// where that is above 1, else plus `step`; each rounded down to whole elements, without repeats.
struct SizeRange {
  std::size_t minimum = std::size_t{32} << 20;
  std::size_t maximum = std::size_t{32} << 20;
  std::size_t step = std::size_t{1} << 20;
  std::size_t factor = 1;
  std::vector<std::size_t> list = {};
};
std::vector<std::size_t> sizes_of(const SizeRange& range, std::size_t element_bytes);

}  // namespace wreath::perf
