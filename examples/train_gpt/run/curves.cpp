// This file draws line plots.
#include "examples/train_gpt/run/curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/page/markup.hpp"
#include "src/page/svg.hpp"

namespace wreath::gpt {

namespace {

constexpr double kWidth = 760, kHeight = 280, kLeft = 60, kRight = 28, kTop = 26, kBottom = 40;
constexpr int kTicks = 6;  // about so many
// A curve of at most so many points gets a mark at each.
constexpr std::size_t kFewPoints = 40;

struct Axis {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Gives an axis without data or without length some length, and sets its ticks.
  void settle() {
    if (!(low <= high)) low = high = 0;
    if (low == high) high = low + 1;
    tick = tick_step((high - low) / kTicks);
  }
  void round() {
    low = tick * std::floor(low / tick);
    high = tick * std::ceil(high / tick);
  }
  double first_tick() const { return 0.0 + tick * std::ceil(low / tick - kNear); }  // not -0
  bool holds(double value) const { return value <= high + kNear * tick; }
  double share(double value) const { return (value - low) / (high - low); }

  double tick = 1;

 private:
  static constexpr double kNear = 1e-9;
};

double at_x(const Axis& axis, double value) { return kLeft + axis.share(value) * (kWidth - kLeft - kRight); }
double at_y(const Axis& axis, double value) {
  return kHeight - kBottom - axis.share(value) * (kHeight - kTop - kBottom);
}

std::string ticks(const Axis& x, const Axis& y) {
  std::string svg;
  for (double value = x.first_tick(); x.holds(value); value += x.tick) {
    svg += svg_text(at_x(x, value), kHeight - kBottom + 16, "tick middle", fmt::format("{:.6g}", value));
  }
  for (double value = y.first_tick(); y.holds(value); value += y.tick) {
    const double shown = std::abs(value) < y.tick / 2 ? 0 : value;
    svg += svg_text(kLeft - 6, at_y(y, value) + 4, "tick end", fmt::format("{:.4g}", shown));
    svg += svg_line("grid", kLeft, at_y(y, value), kWidth - kRight, at_y(y, value));
  }
  return svg;
}

std::string path_of(const Curve& curve, const Axis& x, const Axis& y) {
  std::string points;
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    if (!std::isfinite(curve.y[i])) continue;
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", at_x(x, curve.x[i]), at_y(y, curve.y[i]));
  }
  return points;
}

// Marks the points of a curve that has few, since a single point would be invisible without a mark.
std::string marks_of(const Curve& curve, const Axis& x, const Axis& y) {
  std::string svg;
  for (std::size_t i = 0; i < curve.x.size() && curve.x.size() <= kFewPoints; ++i) {
    if (!std::isfinite(curve.y[i])) continue;
    svg += fmt::format(R"(<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="2.5"/>)", at_x(x, curve.x[i]),
                       at_y(y, curve.y[i]));
  }
  return svg;
}

}  // namespace

std::string plot_svg(const std::string& x_label, const std::string& y_label, const std::vector<Curve>& curves) {
  Axis x, y;
  for (const Curve& curve : curves) {
    for (const double value : curve.x) x.add(value);
    for (const double value : curve.y) y.add(value);
  }
  x.settle();
  x.tick = std::max(x.tick, 1.0);
  y.settle();
  y.round();
  std::string svg = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{} over {}">)", kWidth, kHeight,
                                escape_markup(y_label), escape_markup(x_label));
  svg += ticks(x, y);
  double place = kLeft;  // of a curve's name
  for (std::size_t i = 0; i < curves.size(); ++i) {
    svg += fmt::format(R"(<g class="s{}"><polyline class="line" points="{}"/>{}{}{}</g>)", i, path_of(curves[i], x, y),
                       marks_of(curves[i], x, y), svg_line("line", place, 12, place + 16, 12),
                       svg_text(place + 22, 16, "tick", curves[i].name));
    place += 44 + kCharacterWidth * static_cast<double>(curves[i].name.size());
  }
  return svg + svg_text(kWidth - kRight, kHeight - 6, "tick end", x_label) + "</svg>";
}

}  // namespace wreath::gpt
