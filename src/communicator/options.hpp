// The options of a communicator: what the environment adds, and what rank 0 tells the others.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "src/tuner/measured.hpp"
#include "wreath/communicator.hpp"
#include "wreath/result.hpp"

namespace wreath {

// What all ranks hold alike: rank 0's options, and what its tuning chooses.
struct AgreedOptions : CommunicatorOptions {
  AgreedOptions() = default;
  AgreedOptions(CommunicatorOptions options)  // NOLINT(google-explicit-constructor)
      : CommunicatorOptions(std::move(options)) {}
  MeasuredRules measured;
};

// Fills fields that the program left at their defaults from WREATH_* variables and checks all of them.
Result<AgreedOptions> complete_options(const CommunicatorOptions& options);

// Rank 0: reads the tuning that complete options name. A file that was named and cannot be used is an error; this
// machine's own in the user's cache is passed over then, with one warning.
Status read_rules(AgreedOptions& options);

// As text for the meeting point, and back; the text comes from rank 0, which may be another build.
std::string encode_options(const AgreedOptions& options);
Result<AgreedOptions> decode_options(const std::string& text);

}  // namespace wreath
