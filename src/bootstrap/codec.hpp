// The one encoder and decoder of what ranks tell each other at start, with every length bounded.
//
// Little-endian, no padding. decode() is a pure function from bytes to a message or an error: it is
// what the fuzzer calls (tests/fuzz/bootstrap_decoder.cpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/bootstrap/key.hpp"
#include "wreath/endpoint.hpp"
#include "wreath/result.hpp"
#include "wreath/types.hpp"

namespace wreath {

inline constexpr std::size_t kMaxFrameBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxSettingsBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxTextBytes = 4096;
inline constexpr std::size_t kMaxNameBytes = 96;
inline constexpr std::size_t kMaxAddresses = 8;

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
  // u32 length, then the bytes; cut at `limit`, which the reader enforces.
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
  // Text that will be printed: control characters become '?'.
  std::string text(std::size_t limit);
  bool ok() const { return ok_; }
  // Nothing failed and nothing is left.
  bool complete() const { return ok_ && bytes_.empty(); }
  void fail() { ok_ = false; }

 private:
  std::span<const std::byte> take(std::size_t size);
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

// An IP address and port; family 0: none.
struct NetAddress {
  std::uint8_t family = 0;  // 4 or 6
  std::array<std::byte, 16> ip{};
  std::uint16_t port = 0;
};

// Rank to meeting point, first: who I am and what I want.
struct Hello {
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::int32_t pid = 0;
  std::uint64_t process = 0;
  std::uint64_t host = 0;
  std::string host_name;
  std::string library_version;
  std::string unix_name;  // where this rank listens on its host
  EndpointDevice device;
  bool need_streams = false;
  std::int64_t timeout_ms = 0;
  std::string settings;
};

// Meeting point to all ranks, when all have come: whether to open a TCP listener, and on which side.
struct Summons {
  bool open_tcp = false;
  bool loopback = false;
};

// Rank to meeting point: where it listens for TCP (or why it could not).
struct Listening {
  std::vector<NetAddress> tcp;  // in order of preference; none: no listener was asked for
  std::string error;
};

struct TableRow {
  std::int32_t pid = 0;
  std::uint64_t process = 0;
  std::uint64_t host = 0;
  std::string host_name;
  std::string library_version;
  std::string unix_name;
  EndpointDevice device;
  std::vector<NetAddress> tcp;
};

// Meeting point to all ranks: everybody, in the order of ranks.
struct Table {
  std::uint64_t communicator = 0;
  std::array<std::byte, kKeyBytes> salt{};  // the links' key is derived from it and the job's key
  std::string settings;                     // rank 0's
  std::int64_t link_ms = -1;                // all links must stand within this time; -1: no limit
  std::vector<TableRow> rows;
};

// Rank to meeting point: linked to all (empty error) or not.
struct Ready {
  std::string error;
};

// Meeting point to all ranks: everybody is linked.
struct Go {};

// Meeting point to all ranks: the start failed.
struct Refusal {
  ErrorCode code = ErrorCode::StartupFailed;
  std::int32_t failed_rank = -1;
  std::string text;
};

using Message = std::variant<Hello, Summons, Listening, Table, Ready, Go, Refusal>;

std::vector<std::byte> encode(const Message& message);
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace wreath
