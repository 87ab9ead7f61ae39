// Reading, writing and listing sizes.
#include "perf/common/sizes.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace wreath::perf {
namespace {

struct Unit {
  std::string_view letter;
  int shift;
};
constexpr std::array kUnits{Unit{"g", 30}, Unit{"m", 20}, Unit{"k", 10}};

// The shift of "", "b", "k", "kb", "kib", ...; nullopt for anything else.
std::optional<int> unit_shift(std::string_view text) {
  std::string lower;
  for (const char c : text) lower.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  if (lower.empty() || lower == "b") return 0;
  for (const Unit& unit : kUnits) {
    const std::string letter(unit.letter);
    if (lower == letter || lower == letter + "b" || lower == letter + "ib") return unit.shift;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> parse_size(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || !(number >= 0)) return std::nullopt;
  const auto shift = unit_shift(text.substr(static_cast<std::size_t>(end - text.data())));
  if (!shift) return std::nullopt;
  const double bytes = std::ldexp(number, *shift);
  if (bytes != std::floor(bytes) || bytes > std::ldexp(1.0, 50)) return std::nullopt;
  return static_cast<std::size_t>(bytes);
}

std::string format_size(std::size_t bytes) {
  for (const Unit& unit : kUnits) {
    const std::size_t one = std::size_t{1} << unit.shift;
    if (bytes >= one && bytes % one == 0) {
      return fmt::format("{}{}", bytes / one, static_cast<char>(unit.letter[0] - 'a' + 'A'));
    }
  }
  return std::to_string(bytes);
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
