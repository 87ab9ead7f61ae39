// Writes text inside HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace wreath {

// Returns `text` as it is written between tags and in quoted attributes.
std::string escape_markup(std::string_view text);

}  // namespace wreath
