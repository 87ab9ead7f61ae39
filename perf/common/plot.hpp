// A line plot as inline SVG, with log axes, titles on hover, and colours from the CSS of the page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace wreath::perf {

struct PlotPoint {
  double bytes = 0;
  double value = 0;
  std::string title;  // shown on hover
  // The start of a line to `high` behind the point; 0: there is none.
  double low = 0;
  double high = 0;
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;  // ascending in bytes; values of 0 and below are left out
  bool dashed = false;            // a limit, not a measurement
  // The index of the series beside which this one, of another run, is drawn.
  int beside = -1;
};

struct Plot {
  std::string title;
  std::string unit;
  std::vector<PlotSeries> series;
};

// Returns `<svg>...</svg>`. The classes s0..s5 colour the series, and `limit` the dashed ones. `beside` marks a series
// of another run, in the colour of the series to which it belongs.
std::string plot_svg(const Plot& plot);

}  // namespace wreath::perf
