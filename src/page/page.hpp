// The frame of pages: style, heading, nothing that is loaded from elsewhere.
#pragma once

#include <string>
#include <string_view>

namespace wreath {

// Style rules of a picture that is a file of its own: the common ones and `own`, light and dark. They name colours as
// pages do, var(--c0): --c0 to --c7 are strong, --f0 to --f7 pale ones of the same hues. The colours stand in the
// result, since many viewers of pictures know no variables.
std::string picture_style(std::string_view own);

// A whole HTML page. `title` and `heading` are plain text; `about`, a line below the heading, and `body` are HTML.
std::string page(std::string_view title, std::string_view heading, std::string_view about, std::string_view body);

}  // namespace wreath
