// A process whose memory another one reads.
#pragma once

#include <cstdint>

namespace wreath {

// This process reads its memory through the kernel. What was read counts only if the token was found with it:
// else the process is gone, and another one has its number.
struct ProcessMemory {
  std::uint64_t token = 0;
  std::uint64_t token_address = 0;
  std::int32_t number = 0;  // as the process itself sees it
};

}  // namespace wreath
