// This file declares the timelines of a pipeline as a picture.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "training/pipeline/timeline.hpp"

namespace wreath::gpt {

// The timelines of all ranks of a schedule that verify() accepts.
struct TimelinePanel {
  std::string_view schedule;  // its name
  bool measured = true;       // and not simulated
  std::span<const training::Timeline> timelines;
};

// Returns a self-contained SVG, for light and for dark pages, with the panels one below the other. A panel has a row
// for each rank, with its actions, the numbers of their micro-batches, and its idle share. Spans below 1 us are taken
// for units of simulate().
std::string timeline_svg(std::span<const TimelinePanel> panels);

}  // namespace wreath::gpt
