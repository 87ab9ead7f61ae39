// Returns the version of this library.
#pragma once

#include <string_view>

namespace wreath {

std::string_view library_version();

}  // namespace wreath
