// Writes recordings as JSON files (docs/formats.md).
#pragma once

#include <string>

#include "wreath/recording.hpp"

namespace wreath {

std::string to_json(const Recording& recording);

// Writes wreath-RANK.json into `directory` by atomic rename, mode 0644, and returns its path. Where another
// communicator of the same process has written that file, the name is wreath-RANK-COMMUNICATOR.json.
Result<std::string> write_recording(const Recording& recording, const std::string& directory);

}  // namespace wreath
