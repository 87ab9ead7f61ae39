// Makes the error of an argument that cannot be used.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "wreath/result.hpp"

namespace wreath {

// Explains the error of a rank whose call was given an address of nothing.
inline constexpr std::string_view kNoMemory = "a buffer of its call is not all memory of its process";

inline Error invalid_argument(std::string text) { return {ErrorCode::InvalidArgument, std::move(text), -1}; }

}  // namespace wreath
