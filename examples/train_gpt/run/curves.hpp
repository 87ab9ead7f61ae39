// This file declares a line plot as SVG, for light and dark pages.
#pragma once

#include <string>
#include <vector>

namespace wreath::gpt {

struct Curve {
  std::string name;
  std::vector<double> x;
  // It has the size of x; values that are not finite are left out.
  std::vector<double> y;
};

// Draws at most 4 curves. The axis of x has whole numbers and begins and ends at the data's. The axis of y begins and
// ends at round numbers.
std::string plot_svg(const std::string& x_label, const std::string& y_label, const std::vector<Curve>& curves);

}  // namespace wreath::gpt
