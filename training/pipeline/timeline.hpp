// Timelines of a pipeline, measured or computed: idle shares, and a picture.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "training/pipeline/schedule.hpp"

namespace wreath::training {

struct TimedAction {
  Action action;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  bool operator==(const TimedAction&) const = default;
};

// One rank's actions of a step, in order.
using Timeline = std::vector<TimedAction>;

// Of each rank: 1 - busy / span, where span goes from the first start to the last end of all ranks. 1 of a rank
// without actions.
std::vector<double> idle_shares(std::span<const Timeline> timelines);

// Timelines of all ranks of a schedule that verify() accepts.
struct TimelinePanel {
  std::string_view schedule;  // its name
  bool measured = true;       // and not simulated
  std::span<const Timeline> timelines;
};

// A self-contained SVG, for light and for dark pages: the panels one below the other, each with a row for each rank,
// its actions with the numbers of their micro-batches, and its idle share. Spans below 1 us are taken for units of
// simulate().
std::string timeline_svg(std::span<const TimelinePanel> panels);

}  // namespace wreath::training
