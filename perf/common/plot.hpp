// A line plot as inline SVG: log axes, hover titles, colours from the page's CSS.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace wreath::perf {

struct PlotPoint {
  double bytes = 0;
  double value = 0;
  std::string title;  // shown on hover
  double low = 0;     // a line from here to `high` stands behind the point; 0: none
  double high = 0;
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;  // ascending in bytes; values of 0 and below are left out
  bool dashed = false;            // a limit, not a measurement
  int beside = -1;                // the index of the series that this one, of another run, is drawn beside
};

struct Plot {
  std::string title;
  std::string unit;
  std::vector<PlotSeries> series;
};

// `<svg>...</svg>`; classes s0..s5 colour the series, `limit` the dashed ones; `beside` marks those of another run, in
// the colour of the series that they belong to.
std::string plot_svg(const Plot& plot);

}  // namespace wreath::perf
