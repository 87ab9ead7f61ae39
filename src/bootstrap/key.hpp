// Defines the job's key: the 256-bit secret that every connection proves before a byte of it is believed.
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

// Holds a key, which is wiped on destruction, shared by pointer, and never copied or printed.
class Key {
 public:
  // Makes the key of jobs that have none: it is all zero (peer credentials protect those jobs).
  Key() = default;
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;
  ~Key();

  static std::shared_ptr<const Key> none();
  static std::shared_ptr<const Key> from_bytes(std::span<const std::byte, kKeyBytes> bytes);
  // Reads 64 hexadecimal digits. `where` names the source in the error, which never shows the text.
  static Result<std::shared_ptr<const Key>> parse(std::string_view text, std::string_view where);
  // Reads a file of 64 hexadecimal digits, which this user owns and all others cannot open (0600 or stricter).
  static Result<std::shared_ptr<const Key>> load(const std::string& path);

  // Returns another key for another purpose: HMAC-SHA256(this, label | data).
  std::shared_ptr<const Key> derive(std::string_view label, std::span<const std::byte> data) const;
  // Returns the HMAC-SHA256 of `data`.
  std::array<std::byte, kTagBytes> tag(std::span<const std::byte> data) const;
  // Compares in constant time.
  bool verify(std::span<const std::byte, kTagBytes> tag, std::span<const std::byte> data) const;

 private:
  std::array<std::byte, kKeyBytes> bytes_{};
};

// Holds the key of an environment's job, and says where it was found.
struct FoundKey {
  std::shared_ptr<const Key> key;  // null: none was found
  // Names the source for messages: "WREATH_KEY", a path, ...
  std::string source;
};

// Reads the key from WREATH_KEY_FILE, WREATH_KEY or ~/.config/wreath/key; the first that exists must be usable.
Result<FoundKey> find_key();

// Returns ~/.config/wreath/key; empty when there is no home directory.
std::string default_key_path();

// Makes the private folder ~/.config/wreath where there is none, and returns the path of `file` in it.
Result<std::string> make_key_folder(const std::string& file);

// Returns the text that lists what to do about a missing key.
std::string_view key_remedies();

}  // namespace wreath
