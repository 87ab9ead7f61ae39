// Makes texts of other processes, files and hosts fit for a terminal.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace wreath {

// Returns the bytes of the character that `text`, which is not empty, begins with; 0 where it cannot be shown.
inline std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned first = byte(0);
  if (first < 0x80) return (first < 0x20 && first != '\t') || first == 0x7F ? 0 : 1;
  const std::size_t size = first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  if (size == 0 || size > text.size()) return 0;
  char32_t value = first & (0x7FU >> size);
  for (std::size_t at = 1; at < size; ++at) {
    if (byte(at) >> 6 != 2) return 0;
    value = value << 6 | (byte(at) & 0x3FU);
  }
  constexpr std::array<char32_t, 5> kLeast{0, 0, 0xA0, 0x800, 0x10000};  // below 0xA0: controls
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  return value < kLeast[size] || surrogate || value > 0x10FFFF || (value & 0xFFFE) == 0xFFFE ? 0 : size;
}

// Returns `text` for a terminal, JSON and XML. It has a ? for each byte that is no UTF-8 or belongs to a control
// character.
inline std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t size = character_bytes(text);
    shown += size == 0 ? std::string_view("?") : text.substr(0, size);
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return shown;
}

// Returns printable() of each line.
inline std::string printable_lines(std::string_view text) {
  std::string shown;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    shown += printable(text.substr(0, end)) + '\n';
    text.remove_prefix(end + 1);
  }
  return shown + printable(text);
}

}  // namespace wreath
