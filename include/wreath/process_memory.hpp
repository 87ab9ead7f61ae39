// Describes a process whose memory another process reads.
#pragma once

#include <cstdint>

namespace wreath {

// Names a process whose memory is read through the kernel. Data counts only if the token was found with it: otherwise
// the process is gone, and another one has its number.
struct ProcessMemory {
  std::uint64_t token = 0;
  std::uint64_t token_address = 0;
  std::int32_t number = 0;  // in the process's own numbering
};

}  // namespace wreath
