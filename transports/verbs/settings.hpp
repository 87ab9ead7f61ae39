// The settings of the verbs transport, read from the table of settings.
#pragma once

#include <cstdint>
#include <string>

#include "wreath/result.hpp"

namespace wreath {

// Adapters take 7 retries for "for ever", and then a peer's death is never seen.
inline constexpr std::uint8_t kMostRetries = 6;

struct VerbsSettings {
  std::string adapters;       // a choice among names and ports
  int gid_index = -1;         // -1: by type and address
  std::uint8_t timeout = 17;  // 4.096 us x 2^timeout
  std::uint8_t retry_count = kMostRetries;
  std::uint8_t service_level = 0;
  std::uint8_t traffic_class = 0;
  std::uint16_t pkey_index = 0;
  std::uint32_t queue_pairs = 1;  // to each peer, over each rail
  std::size_t rails = 1;
  bool relaxed_ordering = true;

  // InvalidArgument names the variable, its value and what is allowed.
  static Result<VerbsSettings> read();
};

}  // namespace wreath
