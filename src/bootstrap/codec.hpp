// Encodes and decodes the messages of ranks at start, with every length bounded.
//
// decode() is a pure function from bytes to a message or an error. The fuzzer calls it
// (tests/fuzz/bootstrap_decoder.cpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "src/base/codec.hpp"
#include "src/base/cpu.hpp"
#include "src/bootstrap/key.hpp"
#include "wreath/endpoint.hpp"
#include "wreath/result.hpp"
#include "wreath/types.hpp"

namespace wreath {

inline constexpr std::size_t kMaxFrameBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxSettingsBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxTextBytes = 4096;
inline constexpr std::size_t kMaxNameBytes = 96;
inline constexpr std::size_t kMaxCoreBytes = 4096;
inline constexpr std::size_t kMaxAddresses = 8;

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
  CoreSet cores;  // that the rank may use
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
  std::int32_t host_cores = 1;  // Member::host_cores
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
