// The report's part on the pipeline: where ranks were idle, measured, computed, and by the paper.
#pragma once

#include <span>
#include <string>

#include "training/pipeline/schedule.hpp"
#include "training/pipeline/timeline.hpp"

namespace wreath::gpt {

// `timelines` as measured, of every rank of the schedule. The computed ones are those of simulate() with the mean
// times of the measured actions, and messages that take none.
std::string pipeline_section(const training::PipelineSchedule& schedule, std::span<const training::Timeline> timelines);

}  // namespace wreath::gpt
