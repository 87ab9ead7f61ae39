// The key file that lets ranks of several hosts trust each other.
#pragma once

#include <string>

#include "wreath/result.hpp"

namespace wreath {

// Makes ~/.config/wreath/key: 256 random bits, readable by this user only. Returns its path.
// InvalidUsage when there is one already and `replace` is false. The key itself is never returned.
Result<std::string> create_key_file(bool replace = false);

}  // namespace wreath
