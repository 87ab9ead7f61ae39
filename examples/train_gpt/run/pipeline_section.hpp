// This file declares the report's part on the pipeline: the idle shares of ranks, measured, computed, and by the paper.
#pragma once

#include <span>
#include <string>

#include "training/pipeline/schedule.hpp"
#include "training/pipeline/timeline.hpp"

namespace wreath::gpt {

// Returns the part of the report. `timelines` are measured, of every rank of the schedule. The computed timelines come
// from simulate() with the mean times of the measured actions, and messages that take no time.
std::string pipeline_section(const training::PipelineSchedule& schedule, std::span<const training::Timeline> timelines);

}  // namespace wreath::gpt
