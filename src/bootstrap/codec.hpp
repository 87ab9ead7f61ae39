// Encodes and decodes the messages of ranks at start, with every length bounded.
//
// Numbers are little-endian, without padding. decode() is a pure function from bytes to a message or an error. The
// fuzzer calls it (tests/fuzz/bootstrap_decoder.cpp).
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

// Holds an IP address and port; family 0 means that there is none.
struct NetAddress {
  std::uint8_t family = 0;  // 4 or 6
  std::array<std::byte, 16> ip{};
  std::uint16_t port = 0;
};

// Describes a rank and its process.
struct RankInfo {
  std::int32_t pid = 0;
  std::uint64_t process = 0;
  std::uint64_t host = 0;
  std::string host_name;
  std::string library_version;
  // Names the UNIX socket where this rank listens on its host.
  std::string unix_name;
  EndpointDevice device;
};

// A rank sends this to the meeting point first. It says which rank comes and what it wants.
struct Hello : RankInfo {
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  bool need_streams = false;
  std::int64_t timeout_ms = 0;
  std::string settings;
};

// The meeting point sends this to all ranks when all have come. It says whether to open a TCP listener, and whether at
// the loopback address.
struct Summons {
  bool open_tcp = false;
  bool loopback = false;
};

// A rank sends this to the meeting point. It says where the rank listens for TCP, or why it could not.
struct Listening {
  // Lists addresses in order of preference; there are none where no listener was asked for.
  std::vector<NetAddress> tcp;
  std::string error;
};

struct TableRow : RankInfo {
  std::vector<NetAddress> tcp;
};

// The meeting point sends this to all ranks. It lists all of them, in their order.
struct Table {
  std::uint64_t communicator = 0;
  // The links' key is derived from this salt and the job's key.
  std::array<std::byte, kKeyBytes> salt{};
  // Holds rank 0's settings.
  std::string settings;
  // All links must stand within this time; -1 means no limit.
  std::int64_t link_ms = -1;
  std::vector<TableRow> rows;
};

// A rank sends this to the meeting point. The error is empty where the rank is linked to all others.
struct Ready {
  std::string error;
};

// The meeting point sends this to all ranks when all are linked.
struct Go {};

// The meeting point sends this to all ranks when the start failed.
struct Refusal {
  ErrorCode code = ErrorCode::StartupFailed;
  std::int32_t failed_rank = -1;
  std::string text;
};

using Message = std::variant<Hello, Summons, Listening, Table, Ready, Go, Refusal>;

std::vector<std::byte> encode(const Message& message);
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace wreath
