// The environment adds to the options of a communicator, and rank 0 sends them to the others.
#pragma once

#include <string>
#include <string_view>

#include "src/engine/agreed_options.hpp"
#include "wreath/communicator.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Fills fields that the program left at their defaults from WREATH_* variables and checks all of them.
Result<AgreedOptions> complete_options(const CommunicatorOptions& options);

// Reads the tuning that complete options name; rank 0 calls it. A named file that cannot be used is an error. Where
// this machine's file in the user's cache cannot be used, the function ignores it with one warning.
Status read_rules(AgreedOptions& options);

// Writes the options as text for the meeting point.
std::string encode_options(const AgreedOptions& options);
// Reads such a text, which comes from rank 0. Rank 0 may run another build.
Result<AgreedOptions> decode_options(const std::string& text);

}  // namespace wreath
