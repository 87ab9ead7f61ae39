// Draws two log scales, a grid, lines with points, and a legend above.
#include "perf/common/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "perf/base/sizes.hpp"
#include "src/page/markup.hpp"
#include "src/page/svg.hpp"

namespace wreath::perf {
namespace {

constexpr double kWidth = 620;
constexpr double kHeight = 380;
constexpr double kLeft = 64;
constexpr double kRight = 20;
constexpr double kTop = 84;
constexpr double kLegendY = 46;
constexpr double kLegendLine = 17;
constexpr double kBottom = 44;
constexpr int kColours = 6;
constexpr int kMostLabels = 9;

// One log axis. Values between `low` and `high` lie between `from` and `to`.
struct Scale {
  double low;
  double high;
  double from;
  double to;
  double operator()(double value) const {
    return from + (to - from) * (std::log2(value) - std::log2(low)) / (std::log2(high) - std::log2(low));
  }
};

struct Frame {
  Scale x;
  Scale y;
};

bool drawable(const PlotPoint& point) {
  return point.value > 0 && point.bytes > 0 && std::isfinite(point.value) && std::isfinite(point.bytes);
}

// Returns the 1-2-5 number at or below `value`, or at or above it where `up` is true.
double nice(double value, bool up) {
  const double decade = std::pow(10, std::floor(std::log10(value)));
  double below = decade;
  for (const double step : {1.0, 2.0, 5.0, 10.0}) {
    const double candidate = step * decade;
    if (up && candidate >= value * 0.9999) return candidate;
    if (candidate <= value * 1.0001) below = candidate;
  }
  return below;
}

Frame frame_of(const Plot& plot) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  double x_low = kInfinite;
  double x_high = 0;
  double y_low = kInfinite;
  double y_high = 0;
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) {
      if (!drawable(point)) continue;
      x_low = std::min(x_low, point.bytes);
      x_high = std::max(x_high, point.bytes);
      y_low = std::min(y_low, point.low > 0 ? point.low : point.value);
      y_high = std::max({y_high, point.value, point.high});
    }
  }
  if (x_high == 0) x_low = x_high = y_low = y_high = 1;
  const double margin = x_low == x_high ? 2 : 1;
  y_low = nice(y_low, false);
  y_high = nice(y_high, true);
  if (y_low == y_high) y_high = nice(y_high * 1.5, true);
  return {{x_low / margin, x_high * margin, kLeft + 10, kWidth - kRight - 10},
          {y_low, y_high, kHeight - kBottom, kTop}};
}

// Returns a number such as "0.05", "2" or "1000".
std::string number(double value) {
  return value >= 1 ? fmt::format("{:.0f}", value) : fmt::format("{:g}", std::round(value * 1e6) / 1e6);
}

// Returns powers of ten, with 2 and 5 between them where the range is short.
std::vector<double> value_ticks(const Scale& scale) {
  const bool fine = scale.high / scale.low <= 600;
  std::vector<double> ticks;
  for (double decade = std::pow(10, std::floor(std::log10(scale.low)));
       std::isfinite(decade) && decade <= scale.high * 1.001; decade *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      const double tick = decade * step;
      if ((fine || step == 1.0) && tick >= scale.low * 0.999 && tick <= scale.high * 1.001) ticks.push_back(tick);
    }
  }
  return ticks;
}

// Returns the sizes themselves where they are few, else powers of two at equal distances.
std::vector<double> size_ticks(const Plot& plot, const Scale& scale) {
  std::vector<double> ticks;
  if (!plot.series.empty() && plot.series[0].points.size() <= 3) {
    for (const PlotPoint& point : plot.series[0].points) ticks.push_back(point.bytes);
    return ticks;
  }
  const int first = static_cast<int>(std::ceil(std::log2(scale.low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log2(scale.high) + 1e-9));
  const int step = (last - first) / kMostLabels + 1;
  for (int power = first; power <= last; power += step) ticks.push_back(std::ldexp(1.0, power));
  return ticks;
}

std::string grid(const Plot& plot, const Frame& frame) {
  constexpr double kFloor = kHeight - kBottom;
  std::string svg;
  for (const double tick : value_ticks(frame.y)) {
    svg += svg_line("grid", kLeft, frame.y(tick), kWidth - kRight, frame.y(tick));
    svg += svg_text(kLeft - 8, frame.y(tick) + 4, "tick end", number(tick));
  }
  for (const double tick : size_ticks(plot, frame.x)) {
    if (tick <= 0) continue;
    svg += svg_line("axis", frame.x(tick), kFloor, frame.x(tick), kFloor + 5);
    svg += svg_text(frame.x(tick), kFloor + 20, "tick middle", format_bytes(static_cast<std::size_t>(tick)));
  }
  return svg + svg_line("axis", kLeft, kFloor, kWidth - kRight, kFloor);
}

// Returns the classes of each series. Its colour is by its place among the series that have a colour of their own.
std::vector<std::string> classes_of(const Plot& plot) {
  std::vector<std::string> classes;
  int colour = 0;
  for (const PlotSeries& series : plot.series) {
    if (series.dashed) {
      classes.emplace_back("limit");
    } else if (series.beside >= 0) {
      classes.push_back(classes[static_cast<std::size_t>(series.beside)] + " beside");
    } else {
      classes.push_back(fmt::format("s{}", colour++ % kColours));
    }
  }
  return classes;
}

std::string line(const PlotSeries& series, const Frame& frame, const std::string& css) {
  std::string path;
  std::string points;
  for (const PlotPoint& point : series.points) {
    if (!drawable(point)) continue;
    const double x = frame.x(point.bytes);
    const double y = frame.y(point.value);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x, y);
    if (point.low > 0) points += svg_line("spread", x, frame.y(point.low), x, frame.y(point.high));
    points += fmt::format(R"(<g class="point"><circle class="halo" cx="{0:.1f}" cy="{1:.1f}" r="10"/>)"
                          R"(<circle class="dot" cx="{0:.1f}" cy="{1:.1f}" r="3.2"/><title>{2}</title></g>)",
                          x, y, escape_markup(point.title));
  }
  return fmt::format(R"(<g class="{}"><path class="line" d="{}"/>{}</g>)", css, path, points);
}

// Draws the entries one after the other under the title. A full line continues in a second one.
std::string legend(const Plot& plot, const std::vector<std::string>& classes) {
  std::string svg;
  double x = kLeft;
  double y = kLegendY;
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const PlotSeries& series = plot.series[i];
    const double width = 46 + 6.4 * static_cast<double>(series.name.size());
    if (x > kLeft && x + width > kWidth) {
      x = kLeft;
      y += kLegendLine;
    }
    svg += fmt::format(R"(<g class="{}">{}{}</g>)", classes[i], svg_line("line", x, y, x + 20, y),
                       svg_text(x + 26, y + 4, "key", series.name));
    x += width;
  }
  return svg;
}

}  // namespace

std::string plot_svg(const Plot& plot) {
  const Frame frame = frame_of(plot);
  std::string svg = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">)", kWidth, kHeight,
                                escape_markup(plot.title));
  svg += fmt::format(R"(<text class="title" x="{}" y="24">{} <tspan class="unit">{}</tspan></text>)", kLeft,
                     escape_markup(plot.title), escape_markup(plot.unit));
  const std::vector<std::string> classes = classes_of(plot);
  svg += legend(plot, classes) + grid(plot, frame);
  for (std::size_t i = 0; i < plot.series.size(); ++i) svg += line(plot.series[i], frame, classes[i]);
  return svg + "</svg>\n";
}

}  // namespace wreath::perf
