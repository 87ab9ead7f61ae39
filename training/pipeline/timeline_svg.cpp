// Timelines as a picture.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "training/pipeline/timeline.hpp"

namespace wreath::training {

namespace {

constexpr double kWidth = 1120;
constexpr double kMargin = 32;
constexpr double kLeft = 96;     // where time begins
constexpr double kRight = 1016;  // where it ends; idle shares stand beside
constexpr double kRow = 34;
constexpr double kBar = 26;
constexpr double kHead = 34;         // of a panel
constexpr double kAxis = 46;         // and below its rows
constexpr double kLegend = 60;       // of the picture
constexpr double kDigitWidth = 7.5;  // of a number in a bar

constexpr std::string_view kStyle = R"(<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1d2530; }
.page { fill: #fbfaf8; } .head { font-weight: 620; font-size: 15px; } .soft { fill: #667085; font-size: 12.5px; }
.idle { fill: #efece6; } .tick { stroke: #d6d9de; } .number { font-size: 12px; text-anchor: middle; }
.middle { text-anchor: middle; } .F { fill: #cfe0f8; stroke: #2463c4; } .B { fill: #fbe0c6; stroke: #d9730d; }
.I { fill: #f6d0d2; stroke: #c0262d; } .W { fill: #c9ecdf; stroke: #1a8f6a; } .odd { fill-opacity: 0.45; }
@media (prefers-color-scheme: dark) {
  text { fill: #e7eaee; } .soft { fill: #98a2b1; } .page { fill: #14171c; } .idle { fill: #20252d; }
  .tick { stroke: #363d49; } .F { fill: #23406b; } .B { fill: #6b3d12; } .I { fill: #6b2327; } .W { fill: #14513c; } }
</style>
)";

struct Kind {
  char letter;
  std::string_view meaning;
};
constexpr Kind kKinds[] = {
    {'F', "forward"}, {'B', "backward"}, {'I', "backward by input"}, {'W', "backward by weights"}};

Kind kind_of(const Action& action) { return kKinds[static_cast<std::size_t>(action.kind)]; }

std::string text(double x, double y, std::string_view classes, std::string_view words) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", classes, x, y, words);
}

// Ends, scale and unit of a panel's time.
struct Axis {
  double first = 0;
  double span = 1;
  double unit = 1;  // of the numbers shown
  std::string_view unit_name = "";

  explicit Axis(std::span<const Timeline> timelines) {
    std::int64_t start = std::numeric_limits<std::int64_t>::max();
    std::int64_t end = std::numeric_limits<std::int64_t>::min();
    for (const Timeline& timeline : timelines) {
      for (const TimedAction& timed : timeline) {
        start = std::min(start, timed.start_ns);
        end = std::max(end, timed.end_ns);
      }
    }
    if (end <= start) return;
    first = static_cast<double>(start);
    span = static_cast<double>(end - start);
    if (span >= 1e6) {
      unit = 1e6;
      unit_name = " ms";
    } else if (span >= 1e3) {
      unit = 1e3;
      unit_name = " us";
    }
  }
  double x(double time) const { return kLeft + (time - first) / span * (kRight - kLeft); }
  // 1, 2 or 5 times a power of ten, so that about ten fit.
  double tick() const {
    const double rough = span / 10;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * power >= rough) return factor * power;
    }
    return 10 * power;
  }
};

std::string bar(const Axis& axis, const TimedAction& timed, int rank, double y) {
  const double x = axis.x(static_cast<double>(timed.start_ns));
  const double width = axis.x(static_cast<double>(timed.end_ns)) - x;
  const Kind kind = kind_of(timed.action);
  std::string svg = fmt::format(
      "<rect class=\"{}{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" rx=\"2\"><title>rank {}: {} of "
      "micro-batch {}, chunk {}: {:.4g}{} from {:.4g}{}</title></rect>\n",
      kind.letter, timed.action.chunk % 2 == 1 ? " odd" : "", x, y, std::max(width, 0.5), kBar, rank, kind.meaning,
      timed.action.micro_batch, timed.action.chunk, static_cast<double>(timed.end_ns - timed.start_ns) / axis.unit,
      axis.unit_name, (static_cast<double>(timed.start_ns) - axis.first) / axis.unit, axis.unit_name);
  const std::string number = std::to_string(timed.action.micro_batch);
  if (width > kDigitWidth * static_cast<double>(number.size()) + 3) {
    svg += text(x + width / 2, y + 17.5, "number", number);
  }
  return svg;
}

std::string ticks(const Axis& axis, double top, double bottom) {
  std::string svg;
  for (double time = 0; time <= axis.span * (1 + 1e-9); time += axis.tick()) {
    const double x = axis.x(axis.first + time);
    svg += fmt::format("<line class=\"tick\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>\n", x, top,
                       bottom);
    svg += text(x, bottom + 15, "soft middle", fmt::format("{:.4g}{}", time / axis.unit, axis.unit_name));
  }
  return svg;
}

double height_of(const TimelinePanel& panel) {
  return kHead + kRow * static_cast<double>(panel.timelines.size()) + kAxis;
}

std::string draw(const TimelinePanel& panel, double top) {
  const Axis axis(panel.timelines);
  const std::vector<double> idle = idle_shares(panel.timelines);
  double mean = 0;
  for (const double share : idle) mean += share / static_cast<double>(idle.size());
  std::string svg =
      text(kMargin, top + 16, "head",
           fmt::format("{}, {}: {:.1f}% idle", panel.schedule, panel.measured ? "measured" : "computed", 100 * mean));
  const double rows = top + kHead;
  svg += ticks(axis, rows, rows + kRow * static_cast<double>(idle.size()));
  for (std::size_t rank = 0; rank < idle.size(); ++rank) {
    const double y = rows + kRow * static_cast<double>(rank) + (kRow - kBar) / 2;
    svg += text(kMargin, y + 17.5, "rank", fmt::format("rank {}", rank));
    svg += fmt::format("<rect class=\"idle\" x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" rx=\"2\"/>\n", kLeft, y,
                       kRight - kLeft, kBar);
    for (const TimedAction& timed : panel.timelines[rank]) svg += bar(axis, timed, static_cast<int>(rank), y);
    svg += text(kRight + 12, y + 17.5, "soft", fmt::format("idle {:.1f}%", 100 * idle[rank]));
  }
  return svg;
}

std::string legend() {
  constexpr double kEntryWidth = 185;
  std::string svg;
  double x = kMargin;
  for (const Kind& kind : kKinds) {
    svg +=
        fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"24\" width=\"18\" height=\"18\" rx=\"2\"/>\n", kind.letter, x);
    svg += text(x + 26, 38, "soft", kind.meaning);
    x += kEntryWidth;
  }
  return svg + text(x, 38, "soft", "numbers: micro-batches; pale: odd chunks");
}

}  // namespace

std::string timeline_svg(std::span<const TimelinePanel> panels) {
  double height = kLegend;
  std::string drawn = legend();
  for (const TimelinePanel& panel : panels) {
    drawn += draw(panel, height);
    height += height_of(panel);
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
             "height=\"{1:.0f}\" role=\"img\">\n",
             kWidth, height) +
         std::string(kStyle) +
         fmt::format("<rect class=\"page\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n", kWidth, height) + drawn +
         "</svg>\n";
}

}  // namespace wreath::training
