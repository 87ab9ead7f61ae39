// Protects the messages of a proved connection. Each carries a seal, a MAC of its sender, its number and its content.
// So a message that was altered, repeated, left out or sent back on its way is noticed.
//
//   u32 length, its complement, `length` bytes of content, 32-byte seal
//
// The seal's key is the connection's own, derived from the job's key and both ends' greetings. Where the job has no key
// (UNIX sockets, WREATH_INSECURE=1) it is no secret. A seal then tells of accidents, not of attackers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/base/fd.hpp"
#include "wreath/result.hpp"

namespace wreath {

class Key;

inline constexpr std::size_t kFrameHeaderBytes = 8;
inline constexpr std::size_t kSealBytes = 32;

// Holds what a message says, hashed once for all its receivers.
class Content {
 public:
  explicit Content(std::vector<std::byte> bytes) : bytes_(std::move(bytes)), digest_(digest_of(bytes_)) {}
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  friend class Seal;
  using Digest = std::array<std::byte, 32>;
  static Digest digest_of(std::span<const std::byte> bytes);

  std::vector<std::byte> bytes_;
  Digest digest_;
};

// Seals and checks the messages at one end of a connection. Messages are numbered in the order in which they are
// written and read.
class Seal {
 public:
  Seal() = default;
  // `key` is of this connection alone. `connects` says that this is the end that connected.
  Seal(std::shared_ptr<const Key> key, bool connects) : key_(std::move(key)), connects_(connects) {}

  // Returns the frame of the next message from this end.
  std::vector<std::byte> write(const Content& content);
  // Returns the length of the content behind a header. Fails with StartupFailed where the header was altered, or the
  // length is 0 or more than `most`.
  static Result<std::size_t> length(std::span<const std::byte, kFrameHeaderBytes> header, std::size_t most);
  // Checks that this is the other end's next message; StartupFailed says that it was altered.
  Status read(std::span<const std::byte> content, std::span<const std::byte, kSealBytes> seal);

 private:
  std::array<std::byte, kSealBytes> tag(bool of_connector, std::uint64_t number, const Content::Digest& digest) const;

  std::shared_ptr<const Key> key_;
  bool connects_ = false;
  std::uint64_t written_ = 0;
  std::uint64_t read_ = 0;
};

// Holds a proved stream and what seals its messages.
struct Connection {
  Fd fd;
  Seal seal;
  int get() const { return fd.get(); }
  explicit operator bool() const { return static_cast<bool>(fd); }
};

}  // namespace wreath
