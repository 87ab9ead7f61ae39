// What the papers of the pipeline schedules say of idle time, and the costs that a measured timeline had.
#pragma once

#include <optional>
#include <span>

#include "training/pipeline/verify.hpp"

namespace wreath::training {

// Mean durations, in ns, of the actions of measured timelines. Of a Backward both parts get half; of kinds that none
// ran, 0.
ScheduleCosts mean_costs(std::span<const Timeline> timelines);

// The idle share of each rank by the closed form of schedule.name, as make_schedule() gives them, with p ranks, m
// micro-batches, v chunks per rank, and F, B, W the costs of a chunk:
//   gpipe, 1f1b   (p - 1) / (m + p - 1)
//   interleaved   (p - 1) / (v m + p - 1), where p divides m
//   zb_h1         (p - 1)(F + B - W) / (m (F + B + W) + (p - 1)(F + B - W)), where m >= p
// nullopt for other names, and where the condition does not hold.
std::optional<double> paper_idle_share(const PipelineSchedule& schedule, const ScheduleCosts& costs);

}  // namespace wreath::training
