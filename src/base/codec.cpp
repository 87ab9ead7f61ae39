// Writes and reads values as bytes: see codec.hpp.
#include "src/base/codec.hpp"

#include <algorithm>

namespace wreath {

void Writer::raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

void Writer::text(std::string_view value, std::size_t limit) {
  value = value.substr(0, limit);
  number(static_cast<std::uint32_t>(value.size()));
  raw(std::as_bytes(std::span(value)));
}

std::span<const std::byte> Reader::take(std::size_t size) {
  if (!ok_ || size > bytes_.size()) {
    ok_ = false;
    return {};
  }
  const auto taken = bytes_.first(size);
  bytes_ = bytes_.subspan(size);
  return taken;
}

bool Reader::flag() {
  const auto value = number<std::uint8_t>();
  if (value > 1) ok_ = false;
  return value == 1;
}

void Reader::raw(std::span<std::byte> target) { std::ranges::copy(take(target.size()), target.begin()); }

std::string Reader::opaque(std::size_t limit) {
  const auto size = number<std::uint32_t>();
  if (size > limit) ok_ = false;
  const auto bytes = take(ok_ ? size : 0);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string Reader::text(std::size_t limit) {
  std::string value = opaque(limit);
  std::ranges::replace_if(
      value, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  return value;
}

}  // namespace wreath
