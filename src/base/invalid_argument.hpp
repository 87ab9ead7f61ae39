// The error of an argument that cannot be used.
#pragma once

#include <string>
#include <utility>

#include "wreath/result.hpp"

namespace wreath {

inline Error invalid_argument(std::string text) { return {ErrorCode::InvalidArgument, std::move(text), -1}; }

}  // namespace wreath
