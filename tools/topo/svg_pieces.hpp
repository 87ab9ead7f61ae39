// Pieces of an SVG: rectangles and texts with the classes of a style sheet.
#pragma once

#include <string>
#include <string_view>

namespace wreath {

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

// A rounded rectangle of these classes; `title` is shown on hover where it is not empty.
std::string svg_rectangle(const Box& box, double radius, std::string_view classes, std::string_view title = "");

// Text whose base line begins at x, y.
std::string svg_text(double x, double y, std::string_view classes, std::string_view text);

// "head" in the class `head`, and behind it "soft" in the class `soft`; together about `room` wide, or cut.
std::string svg_pair(double x, double y, std::string_view head, std::string_view soft, double room);

// About how wide a character is.
inline constexpr double kCharacterWidth = 6.7;

// `text` cut to about so many characters with "..." at its end.
std::string shortened(std::string_view text, std::size_t characters);

}  // namespace wreath
