// Reads and lists sizes.
#include "perf/base/sizes.hpp"

#include <limits>

namespace wreath::perf {
std::optional<std::size_t> parse_size(std::string_view text) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50;
  const auto bytes = parse_bytes(text);
  return bytes && *bytes <= kMost ? std::optional<std::size_t>(*bytes) : std::nullopt;
}

std::vector<std::size_t> sizes_of(const SizeRange& range, std::size_t element_bytes) {
  std::vector<std::size_t> sizes;
  const auto append = [&](std::size_t size) {
    const std::size_t whole = size / element_bytes * element_bytes;
    if (sizes.empty() || sizes.back() != whole) sizes.push_back(whole);
  };
  for (const std::size_t size : range.list) append(size);
  if (!range.list.empty()) return sizes;
  std::size_t size = range.minimum;
  while (size <= range.maximum) {
    append(size);
    if (range.factor > 1) {
      if (size > std::numeric_limits<std::size_t>::max() / range.factor) break;
      size = size == 0 ? element_bytes : size * range.factor;
    } else {
      if (range.step == 0) break;
      size += range.step;
    }
  }
  return sizes;
}

}  // namespace wreath::perf
