// Makes the key file by which ranks of several hosts trust each other.
#pragma once

#include <string>

#include "wreath/result.hpp"

namespace wreath {

// Makes ~/.config/wreath/key with 256 random bits that only this user can read, and returns its path. Fails with
// InvalidUsage when there is one already and `replace` is false. The key itself is never returned.
Result<std::string> create_key_file(bool replace = false);

}  // namespace wreath
