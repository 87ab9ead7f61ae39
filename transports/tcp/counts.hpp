// The links of a communicator count their system calls together.
#pragma once

#include <cstdint>

namespace wreath {

struct TcpCounts {
  std::uint64_t messages = 0;  // that were sent
  std::uint64_t bytes = 0;     // of these messages
  std::uint64_t sends = 0;     // system calls
  std::uint64_t receives = 0;  // system calls
};

}  // namespace wreath
