// Pieces of pictures: shapes and texts with the classes of a style sheet. All pictures share their light and dark
// colours with the pages (page.hpp), and need no other file.
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

// Returns a picture for a file of its own. `style` adds rules to the common ones, and `drawn` is drawn on the
// background.
std::string svg_picture(double width, double height, std::string_view style, const std::string& drawn);

// Returns a rounded rectangle of these classes. A viewer shows `title` on hover where it is not empty.
std::string svg_rectangle(const Box& box, double radius, std::string_view classes, std::string_view title = "");

std::string svg_line(std::string_view classes, double x1, double y1, double x2, double y2);

// Returns a text whose base line begins at x, y. With the class `middle` or `end` its middle or its end is there.
std::string svg_text(double x, double y, std::string_view classes, std::string_view text);

// Returns `head` in the class `head`, and behind it `soft` in the class `soft`. The second one is cut where both
// together would be wider than about `room`.
std::string svg_pair(double x, double y, std::string_view head, std::string_view soft, double room);

// The approximate width of a character.
inline constexpr double kCharacterWidth = 6.7;

// Returns `text`, cut to about `characters` characters with "..." at its end where it is longer.
std::string shortened(std::string_view text, std::size_t characters);

// Returns the step between the ticks of a linear axis, which is 1, 2 or 5 times a power of ten, and at least `least`.
double tick_step(double least);

}  // namespace wreath
