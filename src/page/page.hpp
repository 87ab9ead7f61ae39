// The frame of pages: style and heading. A page loads nothing from elsewhere.
#pragma once

#include <string>
#include <string_view>

namespace wreath {

// Returns the style rules of a picture in a file of its own: the common rules and `own`, for light and dark screens.
// Rules name colours as pages do, such as var(--c0). The colours --c0 to --c7 are strong, and --f0 to --f7 are pale
// ones of the same hues. The result holds the colours themselves, since many viewers of pictures know no variables.
std::string picture_style(std::string_view own);

// Returns a whole HTML page. `title` and `heading` are plain text. `about`, which is a line below the heading, and
// `body` are HTML.
std::string page(std::string_view title, std::string_view heading, std::string_view about, std::string_view body);

}  // namespace wreath
