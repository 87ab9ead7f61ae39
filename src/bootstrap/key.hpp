// The job's key: the 256-bit secret that every connection proves before a byte of it is believed.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "wreath/result.hpp"

namespace wreath {

inline constexpr std::size_t kKeyBytes = 32;
inline constexpr std::size_t kTagBytes = 32;

// Wiped on destruction, shared by pointer and never copied, never printed.
class Key {
 public:
  Key() = default;  // all zero: the key of jobs that have none (peer credentials protect those)
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;
  ~Key();

  static std::shared_ptr<const Key> none();
  static std::shared_ptr<const Key> from_bytes(std::span<const std::byte, kKeyBytes> bytes);
  // 64 hexadecimal digits. `where` names the source in the error, which never shows the text.
  static Result<std::shared_ptr<const Key>> parse(std::string_view text, std::string_view where);
  // A file of 64 hexadecimal digits, owned by the user and closed to everybody else (0600 or stricter).
  static Result<std::shared_ptr<const Key>> load(const std::string& path);

  // Another key for another purpose: HMAC-SHA256(this, label | data).
  std::shared_ptr<const Key> derive(std::string_view label, std::span<const std::byte> data) const;
  // HMAC-SHA256 of `data`.
  std::array<std::byte, kTagBytes> tag(std::span<const std::byte> data) const;
  // Compares in constant time.
  bool verify(std::span<const std::byte, kTagBytes> tag, std::span<const std::byte> data) const;

 private:
  std::array<std::byte, kKeyBytes> bytes_{};
};

// Where the key of an environment's job was found.
struct FoundKey {
  std::shared_ptr<const Key> key;  // null: none was found
  std::string source;              // "WREATH_KEY", a path, ...: for messages
};

// WREATH_KEY_FILE, WREATH_KEY, ~/.config/wreath/key; the first that exists must be usable.
Result<FoundKey> find_key();

// ~/.config/wreath/key; empty when there is no home directory.
std::string default_key_path();

// The text that lists what to do about a missing key.
std::string_view key_remedies();

}  // namespace wreath
