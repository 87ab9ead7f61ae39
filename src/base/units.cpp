// Reads and writes sizes.
#include "wreath/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace wreath {
namespace {

struct Unit {
  char letter;
  int shift;
};
constexpr std::array kUnits{Unit{'T', 40}, Unit{'G', 30}, Unit{'M', 20}, Unit{'K', 10}};

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

// Returns the power of two that "", "B", "K", "KB", "KiB", ... means, in any case.
std::optional<int> suffix_shift(std::string_view suffix) {
  if (suffix.empty() || (suffix.size() == 1 && upper(suffix[0]) == 'B')) return 0;
  for (const Unit& unit : kUnits) {
    if (upper(suffix[0]) != unit.letter) continue;
    const std::string_view rest = suffix.substr(1);
    const bool bare = rest.empty();
    const bool bytes = rest.size() == 1 && upper(rest[0]) == 'B';
    const bool binary = rest.size() == 2 && upper(rest[0]) == 'I' && upper(rest[1]) == 'B';
    if (bare || bytes || binary) return unit.shift;
  }
  return std::nullopt;
}

Error bad_size(std::string_view text, std::string_view reason) {
  return {ErrorCode::InvalidArgument, fmt::format("'{}' is not a size: {}", text, reason)};
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
  const std::size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, digits);
  const std::string_view suffix = digits == std::string_view::npos ? std::string_view() : text.substr(digits);
  if (number.empty()) return bad_size(text, "it must start with a number, as in 64K or 1.5M");
  const std::optional<int> shift = suffix_shift(suffix);
  if (!shift)
    return bad_size(text,
                    fmt::format("unknown suffix '{}'; use K, M, G or T, alone or as KiB, MiB, GiB or TiB", suffix));

  std::uint64_t whole = 0;
  const char* const end = number.data() + number.size();
  const auto integer = std::from_chars(number.data(), end, whole);
  constexpr std::string_view kTooLarge = "it is 2^63 bytes or more";
  if (integer.ec == std::errc::result_out_of_range) return bad_size(text, kTooLarge);
  if (integer.ec == std::errc() && integer.ptr == end) {
    if (whole >> (63 - *shift) != 0) return bad_size(text, kTooLarge);
    return whole << *shift;
  }
  double fraction = 0;
  const auto real = std::from_chars(number.data(), end, fraction, std::chars_format::fixed);
  if (real.ec != std::errc() || real.ptr != end) return bad_size(text, "the number is malformed");
  const double bytes = std::ldexp(fraction, *shift);
  if (bytes >= std::ldexp(1.0, 63)) return bad_size(text, kTooLarge);
  if (bytes != std::floor(bytes)) return bad_size(text, "it is not a whole number of bytes");
  return static_cast<std::uint64_t>(bytes);
}

std::string format_bytes(std::uint64_t bytes) {
  for (const Unit& unit : kUnits) {
    const std::uint64_t size = std::uint64_t{1} << unit.shift;
    if (bytes >= size && bytes % size == 0) return fmt::format("{}{}", bytes >> unit.shift, unit.letter);
  }
  return fmt::format("{}", bytes);
}

}  // namespace wreath
