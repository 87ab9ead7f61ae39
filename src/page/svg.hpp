// Pieces of pictures: shapes and texts with the classes of a style sheet. All pictures share their colours, light and
// dark, with the pages (page.hpp), and are whole without another file.
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

// A picture that is a file of its own: `style` adds rules to the common ones, `drawn` is what stands on the background.
std::string svg_picture(double width, double height, std::string_view style, const std::string& drawn);

// A rounded rectangle of these classes; `title` is shown on hover where it is not empty.
std::string svg_rectangle(const Box& box, double radius, std::string_view classes, std::string_view title = "");

std::string svg_line(std::string_view classes, double x1, double y1, double x2, double y2);

// Text whose base line begins at x, y; with the class `middle` or `end` it has its middle or its end there.
std::string svg_text(double x, double y, std::string_view classes, std::string_view text);

// "head" in the class `head`, and behind it "soft" in the class `soft`; together about `room` wide, or cut.
std::string svg_pair(double x, double y, std::string_view head, std::string_view soft, double room);

// About how wide a character is.
inline constexpr double kCharacterWidth = 6.7;

// `text` cut to about so many characters with "..." at its end.
std::string shortened(std::string_view text, std::size_t characters);

// The step between ticks of a linear axis: 1, 2 or 5 times a power of ten, and at least `least`.
double tick_step(double least);

}  // namespace wreath
