// Reads the options of a communicator from "name=value" texts.
#pragma once

#include "wreath/communicator.hpp"

namespace wreath::c_api {

// Reads texts; `texts` ends with a null, or is null itself. InvalidArgument names the text that is wrong.
Result<CommunicatorOptions> read_options(const char* const* texts);

}  // namespace wreath::c_api
