// An Endpoint is a rank as its peers see it before they are linked.
#pragma once

#include <array>
#include <cstdint>

#include "wreath/types.hpp"

namespace wreath {

// An EndpointDevice is the device that a rank's calls on device memory run on.
struct EndpointDevice {
  enum class Kind : std::uint8_t { None, Host, Cuda };
  Kind kind = Kind::None;
  // The UUID of a GPU, or of a part of one. Equal UUIDs mean the same memory.
  std::array<std::uint8_t, 16> uuid = {};
  friend bool operator==(const EndpointDevice&, const EndpointDevice&) = default;
};

struct Endpoint {
  Rank rank;
  // The number is random per process. Equal numbers mean the same address space.
  std::uint64_t process;
  // Equal numbers mean that shared memory and UNIX sockets may reach.
  std::uint64_t host;
  EndpointDevice device = {};
};

}  // namespace wreath
