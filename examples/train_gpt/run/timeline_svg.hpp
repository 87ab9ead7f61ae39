// The timelines of a pipeline as a picture.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "training/pipeline/timeline.hpp"

namespace wreath::gpt {

// Timelines of all ranks of a schedule that verify() accepts.
struct TimelinePanel {
  std::string_view schedule;  // its name
  bool measured = true;       // and not simulated
  std::span<const training::Timeline> timelines;
};

// A self-contained SVG, for light and for dark pages: the panels one below the other, each with a row for each rank,
// its actions with the numbers of their micro-batches, and its idle share. Spans below 1 us are taken for units of
// simulate().
std::string timeline_svg(std::span<const TimelinePanel> panels);

}  // namespace wreath::gpt
