// The options of a communicator: the environment adds to them, and rank 0 tells them to the others.
#pragma once

#include <string>
#include <string_view>

#include "src/engine/agreed_options.hpp"
#include "wreath/communicator.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Fills fields that the program left at their defaults from WREATH_* variables and checks all of them.
Result<AgreedOptions> complete_options(const CommunicatorOptions& options);

// Rank 0: reads the tuning that complete options name. A file that was named and cannot be used is an error; this
// machine's own in the user's cache is passed over then, with one warning.
Status read_rules(AgreedOptions& options);

// Write the options as text for the meeting point, and read them back. The text comes from rank 0, which may be another
// build.
std::string encode_options(const AgreedOptions& options);
Result<AgreedOptions> decode_options(const std::string& text);

}  // namespace wreath
