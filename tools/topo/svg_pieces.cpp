// Writing them.
#include "tools/topo/svg_pieces.hpp"

#include <fmt/format.h>

#include "src/base/markup.hpp"

namespace wreath {

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

}  // namespace wreath
