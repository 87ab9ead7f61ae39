// Writes the pieces of pictures.
#include "src/page/svg.hpp"

#include <fmt/format.h>

#include <cmath>

#include "src/page/markup.hpp"
#include "src/page/page.hpp"

namespace wreath {

std::string svg_picture(double width, double height, std::string_view style, const std::string& drawn) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" role=\"img\">\n<style>\n{2}</style>\n{3}{4}</svg>\n",
      width, height, picture_style(style), svg_rectangle({0, 0, width, height}, 0, "page"), drawn);
}

std::string svg_line(std::string_view classes, double x1, double y1, double x2, double y2) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", classes, x1, y1,
                     x2, y2);
}

std::string svg_rectangle(const Box& box, double radius, std::string_view classes, std::string_view title) {
  const std::string shape =
      fmt::format(R"(<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="{}")", classes, box.x,
                  box.y, box.width, box.height, radius);
  return title.empty() ? shape + "/>\n" : fmt::format("{}><title>{}</title></rect>\n", shape, escape_markup(title));
}

std::string svg_text(double x, double y, std::string_view classes, std::string_view text) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", classes, x, y, escape_markup(text));
}

std::string svg_pair(double x, double y, std::string_view head, std::string_view soft, double room) {
  constexpr double kBoldWidth = 8.5;
  const double left = room - kBoldWidth * static_cast<double>(head.size());
  const std::string rest =
      left < 8 * kCharacterWidth ? std::string() : shortened(soft, static_cast<std::size_t>(left / kCharacterWidth));
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\"><tspan class=\"head\">{}</tspan><tspan class=\"soft\" "
      "dx=\"10\">{}</tspan></text>\n",
      x, y, escape_markup(head), escape_markup(rest));
}

std::string shortened(std::string_view text, std::size_t characters) {
  if (text.size() <= characters) return std::string(text);
  return std::string(text.substr(0, characters - 3)) + "...";
}

double tick_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

}  // namespace wreath
