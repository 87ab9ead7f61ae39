// This file declares the idle time that the papers of the pipeline schedules give, and the costs of a measured
// timeline.
#pragma once

#include <optional>
#include <span>

#include "training/pipeline/verify.hpp"

namespace wreath::training {

// Returns the mean durations, in ns, of the actions of measured timelines. Each of its two parts gets half of a
// Backward. A kind of which no action ran gets 0.
ScheduleCosts mean_costs(std::span<const Timeline> timelines);

// Returns the idle share of each rank by the closed form of schedule.name, for schedules of make_schedule(). There are
// p ranks, m micro-batches and v chunks per rank; F, B, W are the costs of a chunk:
//   gpipe, 1f1b   (p - 1) / (m + p - 1)
//   interleaved   (p - 1) / (v m + p - 1), where p divides m
//   zb_h1         (p - 1)(F + B - W) / (m (F + B + W) + (p - 1)(F + B - W)), where m >= p
// Returns nullopt for other names, and where the condition does not hold.
std::optional<double> paper_idle_share(const PipelineSchedule& schedule, const ScheduleCosts& costs);

}  // namespace wreath::training
