// A channel's address becomes bytes: a version, then the fields in the order of Address::each_field(address, visit).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/codec.hpp"
#include "wreath/result.hpp"

namespace wreath {

inline constexpr std::uint8_t kAddressVersion = 1;
inline constexpr std::size_t kMostAddressText = 64;
inline constexpr std::size_t kMostAddressField = 128;  // bytes of an address that a library made

inline Error bad_address(const std::string& words) { return {ErrorCode::Mismatch, "the peer's address: " + words}; }

// Each overload writes or reads a field of another type: a number, a flag or an enumeration; text; bytes.
template <typename T>
void write_field(Writer& writer, const T& field) {
  if constexpr (std::is_enum_v<T> || std::is_same_v<T, bool>) {
    static_assert(sizeof field == 1);
    writer.number(static_cast<std::uint8_t>(field));
  } else {
    writer.number(field);
  }
}
inline void write_field(Writer& writer, const std::string& field) { writer.text(field, kMostAddressText); }
inline void write_field(Writer& writer, const std::vector<std::byte>& field) {
  writer.number(static_cast<std::uint8_t>(field.size()));
  writer.raw(field);
}
template <std::size_t Size>
void write_field(Writer& writer, const std::array<std::uint8_t, Size>& field) {
  writer.raw(std::as_bytes(std::span(field)));
}

template <typename T>
void read_field(Reader& reader, T& field) {
  if constexpr (std::is_same_v<T, bool>) {
    field = reader.flag();
  } else if constexpr (std::is_enum_v<T>) {
    field = static_cast<T>(reader.number<std::uint8_t>());
  } else {
    field = reader.number<T>();
  }
}
inline void read_field(Reader& reader, std::string& field) { field = reader.text(kMostAddressText); }
inline void read_field(Reader& reader, std::vector<std::byte>& field) {
  field.resize(std::min<std::size_t>(reader.number<std::uint8_t>(), kMostAddressField));
  reader.raw(field);
}
template <std::size_t Size>
void read_field(Reader& reader, std::array<std::uint8_t, Size>& field) {
  reader.raw(std::as_writable_bytes(std::span(field)));
}

template <typename Address>
std::vector<std::byte> encode_address(const Address& address) {
  Writer writer;
  writer.number(kAddressVersion);
  Address::each_field(address, [&](const auto& field) { write_field(writer, field); });
  return writer.take();
}

// The bytes are a stranger's. Mismatch names what is wrong with them, also by Address::check().
template <typename Address>
Result<Address> decode_address(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const auto version = reader.number<std::uint8_t>();
  if (reader.ok() && version != kAddressVersion) {
    return bad_address(fmt::format("its version is {}, must be {}", version, kAddressVersion));
  }
  Address address;
  Address::each_field(address, [&](auto& field) { read_field(reader, field); });
  if (!reader.complete()) return bad_address(fmt::format("its {} bytes are malformed", bytes.size()));
  WREATH_TRY(address.check());
  return address;
}

}  // namespace wreath
