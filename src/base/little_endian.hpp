// Numbers that another machine reads lie in memory with their least significant byte first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace wreath {

// Writes the low `bytes` bytes of a number.
inline void store_little(std::byte* target, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) target[i] = static_cast<std::byte>((value >> (8 * i)) & 0xff);
}

template <typename T>
T load_little(const std::byte* source) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= std::to_integer<std::uint64_t>(source[i]) << (8 * i);
  return static_cast<T>(value);
}

// The two functions below are for records whose fields have fixed places: Record::each_field(record, visit) calls
// visit(field, offset) for each of them.
template <typename Record>
void store_fields(const Record& record, std::byte* target) {
  Record::each_field(record, [target](const auto& field, std::size_t offset) {
    store_little(target + offset, static_cast<std::uint64_t>(field), sizeof field);
  });
}

template <typename Record>
Record load_fields(const std::byte* source) {
  Record record;
  Record::each_field(record, [source](auto& field, std::size_t offset) {
    field = load_little<std::remove_reference_t<decltype(field)>>(source + offset);
  });
  return record;
}

}  // namespace wreath
