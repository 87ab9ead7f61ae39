// Links count their operations: messages cost system calls, doorbells and the like.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace wreath {

inline constexpr std::size_t kMostWireCounts = 8;

// These are one rank's counts since its communicator was made, of all its links over one transport. A transport that
// counts nothing, as those over shared memory, has none.
struct WireCounts {
  struct Count {
    std::string_view name;  // for people: "doorbells"
    std::uint64_t number = 0;
  };
  std::string_view transport;  // the name of its row in transports()
  std::uint64_t bytes = 0;     // of the messages that were sent, without headers
  std::vector<Count> counts;   // kMostWireCounts at most, always the same names in the same order
};

// A message will take this way over a wire, at this cost to its sender. The counts have the names of WireCounts.
struct MessageWay {
  std::string text;     // for people
  std::string adapter;  // whose limits decide; empty: those of most adapters, since none is here
  std::vector<WireCounts::Count> counts;
};

}  // namespace wreath
