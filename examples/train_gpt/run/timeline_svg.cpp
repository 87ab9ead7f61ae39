// This file draws timelines as a picture.
#include "examples/train_gpt/run/timeline_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>

#include "src/page/svg.hpp"

namespace wreath::gpt {

using training::Action;
using training::TimedAction;
using training::Timeline;

namespace {

constexpr double kPictureWidth = 1120;
constexpr double kMargin = 32;
constexpr double kTimeBegin = 96;
// Idle shares stand beside the end.
constexpr double kTimeEnd = 1016;
constexpr double kRow = 34;
constexpr double kBar = 26;
constexpr double kHead = 34;         // of a panel
constexpr double kAxis = 46;         // and below its rows
constexpr double kLegend = 60;       // of the picture
constexpr double kDigitWidth = 7.5;  // of a number in a bar

constexpr std::string_view kStyle = R"(
svg .head { font-size: 15px; } .idle { fill: var(--rule); } .timetick { stroke: var(--limit); stroke-width: 0.5; }
.number { font-size: 12px; } .F { fill: var(--f0); stroke: var(--c0); } .B { fill: var(--f1); stroke: var(--c1); }
.I { fill: var(--f7); stroke: var(--c7); } .W { fill: var(--f2); stroke: var(--c2); } .odd { fill-opacity: 0.45; }
)";

struct Kind {
  char letter;
  std::string_view meaning;
};
constexpr Kind kKinds[] = {
    {'F', "forward"}, {'B', "backward"}, {'I', "backward by input"}, {'W', "backward by weights"}};

Kind kind_of(const Action& action) { return kKinds[static_cast<std::size_t>(action.kind)]; }

// The ends, scale and unit of a panel's time.
struct TimeAxis {
  double first = 0;
  double span = 1;
  double unit = 1;  // of the numbers shown
  std::string_view unit_name = "";

  explicit TimeAxis(std::span<const Timeline> timelines) {
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
  double x(double time) const { return kTimeBegin + (time - first) / span * (kTimeEnd - kTimeBegin); }
  double tick() const { return tick_step(span / 10); }  // about ten fit
};

std::string bar(const TimeAxis& axis, const TimedAction& timed, int rank, double y) {
  const double x = axis.x(static_cast<double>(timed.start_ns));
  const double width = axis.x(static_cast<double>(timed.end_ns)) - x;
  const Kind kind = kind_of(timed.action);
  const std::string title = fmt::format("rank {}: {} of micro-batch {}, chunk {}: {:.4g}{} from {:.4g}{}", rank,
                                        kind.meaning, timed.action.micro_batch, timed.action.chunk,
                                        static_cast<double>(timed.end_ns - timed.start_ns) / axis.unit, axis.unit_name,
                                        (static_cast<double>(timed.start_ns) - axis.first) / axis.unit, axis.unit_name);
  const std::string classes = fmt::format("{}{}", kind.letter, timed.action.chunk % 2 == 1 ? " odd" : "");
  std::string svg = svg_rectangle({x, y, std::max(width, 0.5), kBar}, 2, classes, title);
  const std::string number = std::to_string(timed.action.micro_batch);
  if (width > kDigitWidth * static_cast<double>(number.size()) + 3) {
    svg += svg_text(x + width / 2, y + 17.5, "number middle", number);
  }
  return svg;
}

std::string ticks(const TimeAxis& axis, double top, double bottom) {
  std::string svg;
  for (double time = 0; time <= axis.span * (1 + 1e-9); time += axis.tick()) {
    const double x = axis.x(axis.first + time);
    svg += svg_line("timetick", x, top, x, bottom);
    svg += svg_text(x, bottom + 15, "soft middle", fmt::format("{:.4g}{}", time / axis.unit, axis.unit_name));
  }
  return svg;
}

double height_of(const TimelinePanel& panel) {
  return kHead + kRow * static_cast<double>(panel.timelines.size()) + kAxis;
}

std::string draw(const TimelinePanel& panel, double top) {
  const TimeAxis axis(panel.timelines);
  const std::vector<double> idle = training::idle_shares(panel.timelines);
  double mean = 0;
  for (const double share : idle) mean += share / static_cast<double>(idle.size());
  std::string svg = svg_text(
      kMargin, top + 16, "head",
      fmt::format("{}, {}: {:.1f}% idle", panel.schedule, panel.measured ? "measured" : "computed", 100 * mean));
  const double rows = top + kHead;
  svg += ticks(axis, rows, rows + kRow * static_cast<double>(idle.size()));
  for (std::size_t rank = 0; rank < idle.size(); ++rank) {
    const double y = rows + kRow * static_cast<double>(rank) + (kRow - kBar) / 2;
    svg += svg_text(kMargin, y + 17.5, "rank", fmt::format("rank {}", rank));
    svg += svg_rectangle({kTimeBegin, y, kTimeEnd - kTimeBegin, kBar}, 2, "idle");
    for (const TimedAction& timed : panel.timelines[rank]) svg += bar(axis, timed, static_cast<int>(rank), y);
    svg += svg_text(kTimeEnd + 12, y + 17.5, "soft", fmt::format("idle {:.1f}%", 100 * idle[rank]));
  }
  return svg;
}

std::string legend() {
  constexpr double kEntryWidth = 185;
  std::string svg;
  double x = kMargin;
  for (const Kind& kind : kKinds) {
    svg += svg_rectangle({x, 24, 18, 18}, 2, std::string_view(&kind.letter, 1));
    svg += svg_text(x + 26, 38, "soft", kind.meaning);
    x += kEntryWidth;
  }
  return svg + svg_text(x, 38, "soft", "numbers: micro-batches; pale: odd chunks");
}

}  // namespace

std::string timeline_svg(std::span<const TimelinePanel> panels) {
  double height = kLegend;
  std::string drawn = legend();
  for (const TimelinePanel& panel : panels) {
    drawn += draw(panel, height);
    height += height_of(panel);
  }
  return svg_picture(kPictureWidth, height, kStyle, drawn);
}

}  // namespace wreath::gpt
