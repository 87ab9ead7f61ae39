// Recordings as JSON files (docs/formats.md).
#pragma once

#include <string>

#include "wreath/recording.hpp"

namespace wreath {

std::string to_json(const Recording& recording);

// Writes wreath-RANK.json, or wreath-RANK-COMMUNICATOR.json where another communicator of the same
// process has written that, into `directory` by atomic rename, mode 0644. Returns the path.
Result<std::string> write_recording(const Recording& recording, const std::string& directory);

}  // namespace wreath
