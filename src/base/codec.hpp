// Turns values into bytes and back, with every length bounded. Numbers are little-endian, without padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace wreath {

// Appends values to bytes.
class Writer {
 public:
  template <typename T>
  void number(T value) {
    using Unsigned = std::make_unsigned_t<T>;
    auto bits = static_cast<Unsigned>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(bits & 0xFF));
      bits = static_cast<Unsigned>(static_cast<std::uint64_t>(bits) >> 8);
    }
  }
  void raw(std::span<const std::byte> bytes);
  // Writes a u32 length, then the bytes. Text is cut at `limit`, which the reader enforces.
  void text(std::string_view value, std::size_t limit);
  std::vector<std::byte> take() { return std::move(bytes_); }
  std::string take_string() { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::vector<std::byte> bytes_;
};

// Reads values from bytes. The first read past the end or over a limit fails the reader for good;
// failed reads give zeros.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
  T number() {
    std::uint64_t value = 0;
    const auto bytes = take(sizeof(T));
    for (std::size_t i = 0; i < bytes.size(); ++i) value |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(value));
  }
  bool flag();
  void raw(std::span<std::byte> target);
  std::string opaque(std::size_t limit);
  // Reads text that will be printed: control characters become '?'.
  std::string text(std::size_t limit);
  bool ok() const { return ok_; }
  // Returns whether no read failed and no byte is left.
  bool complete() const { return ok_ && bytes_.empty(); }
  void fail() { ok_ = false; }

 private:
  std::span<const std::byte> take(std::size_t size);
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

}  // namespace wreath
