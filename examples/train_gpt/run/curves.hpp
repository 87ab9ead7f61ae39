// A line plot as SVG, for light and dark pages.
#pragma once

#include <string>
#include <vector>

namespace wreath::gpt {

struct Curve {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;  // as long; what is not finite is left out
};

// The axis of x, whole numbers, begins and ends at the data's, that of y at round numbers. At most 4 curves.
std::string plot_svg(const std::string& x_label, const std::string& y_label, const std::vector<Curve>& curves);

}  // namespace wreath::gpt
