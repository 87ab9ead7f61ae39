// The options of a communicator: what the environment adds, and what rank 0 tells the others.
#pragma once

#include <string>

#include "wreath/communicator.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Fills fields that the program left at their defaults from WREATH_* variables and checks all of them.
Result<CommunicatorOptions> complete_options(const CommunicatorOptions& options);

// As text for the meeting point, and back; the text comes from rank 0, which may be another build.
std::string encode_options(const CommunicatorOptions& options);
Result<CommunicatorOptions> decode_options(const std::string& text);

}  // namespace wreath
