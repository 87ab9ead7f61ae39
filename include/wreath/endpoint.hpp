// A rank as its peers see it before they are linked.
#pragma once

#include <array>
#include <cstdint>

#include "wreath/types.hpp"

namespace wreath {

// The device that a rank's calls on device memory run on.
struct EndpointDevice {
  enum class Kind : std::uint8_t { None, Host, Cuda };
  Kind kind = Kind::None;
  std::array<std::uint8_t, 16> uuid = {};  // of a GPU, or of a part of one: equal means the same memory
  friend bool operator==(const EndpointDevice&, const EndpointDevice&) = default;
};

struct Endpoint {
  Rank rank;
  std::uint64_t process;  // random per process: equal means the same address space
  std::uint64_t host;     // equal means shared memory and UNIX sockets may reach
  EndpointDevice device = {};
};

}  // namespace wreath
