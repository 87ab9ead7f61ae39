// Line plots.
#include "examples/train_gpt/run/curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace wreath::gpt {

namespace {

constexpr double kWidth = 760, kHeight = 280, kLeft = 60, kRight = 28, kTop = 26, kBottom = 40;
constexpr int kTicks = 6;               // about
constexpr std::size_t kFewPoints = 40;  // are marked

struct Axis {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Of an axis without data or without length, one that has it.
  void settle() {
    if (!(low <= high)) low = high = 0;
    if (low == high) high = low + 1;
    tick = tick_of(high - low);
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
  // 1, 2 or 5 times a power of ten.
  static double tick_of(double length) {
    const double rough = length / kTicks;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * power >= rough) return factor * power;
    }
    return 10 * power;
  }
};

double at_x(const Axis& axis, double value) { return kLeft + axis.share(value) * (kWidth - kLeft - kRight); }
double at_y(const Axis& axis, double value) {
  return kHeight - kBottom - axis.share(value) * (kHeight - kTop - kBottom);
}

std::string ticks(const Axis& x, const Axis& y) {
  std::string svg;
  for (double value = x.first_tick(); x.holds(value); value += x.tick) {
    svg += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{:.6g}</text>)", at_x(x, value),
                       kHeight - kBottom + 16, value);
  }
  for (double value = y.first_tick(); y.holds(value); value += y.tick) {
    const double shown = std::abs(value) < y.tick / 2 ? 0 : value;
    svg += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{:.4g}</text>)", kLeft - 6, at_y(y, value) + 4,
                       shown);
    svg += fmt::format(R"(<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>)", kLeft, kWidth - kRight,
                       at_y(y, value), at_y(y, value));
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

// Few points are seen as such, and one alone at all.
std::string marks_of(const Curve& curve, const Axis& x, const Axis& y, const char* color) {
  std::string svg;
  for (std::size_t i = 0; i < curve.x.size() && curve.x.size() <= kFewPoints; ++i) {
    if (!std::isfinite(curve.y[i])) continue;
    svg += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="2.5" fill="{}"/>)", at_x(x, curve.x[i]),
                       at_y(y, curve.y[i]), color);
  }
  return svg;
}

}  // namespace

std::string plot_svg(const std::string& x_label, const std::string& y_label, const std::vector<Curve>& curves) {
  static constexpr std::array<const char*, 4> kColors = {"#2f6fde", "#d9662b", "#3a9d5d", "#8a56c9"};
  Axis x, y;
  for (const Curve& curve : curves) {
    for (const double value : curve.x) x.add(value);
    for (const double value : curve.y) y.add(value);
  }
  x.settle();
  x.tick = std::max(x.tick, 1.0);
  y.settle();
  y.round();
  std::string svg = fmt::format(R"(<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{} over {}">)", kWidth,
                                kHeight, y_label, x_label);
  svg += ticks(x, y);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const char* color = kColors[i % kColors.size()];
    svg += fmt::format(R"(<polyline fill="none" stroke="{}" stroke-width="1.5" points="{}"/>)", color,
                       path_of(curves[i], x, y));
    svg += marks_of(curves[i], x, y, color);
    svg += fmt::format(R"(<text x="{}" y="16" fill="{}" style="fill:{}">{}</text>)",
                       kLeft + 150 * static_cast<double>(i), color, color, curves[i].name);
  }
  svg += fmt::format(R"(<text x="{}" y="{}" text-anchor="end">{}</text></svg>)", kWidth - kRight, kHeight - 6, x_label);
  return svg;
}

}  // namespace wreath::gpt
