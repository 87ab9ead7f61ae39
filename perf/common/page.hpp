// The frame of the perf tools' pages: style, heading, nothing that is loaded from elsewhere.
#pragma once

#include <string>
#include <string_view>

namespace wreath::perf {

// A whole HTML page. `title` and `heading` are plain text; `about`, a line below the heading, and `body` are HTML.
std::string page(std::string_view title, std::string_view heading, std::string_view about, std::string_view body);

}  // namespace wreath::perf
