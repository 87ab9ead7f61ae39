// This file writes idle shares side by side, and the two timelines.
#include "examples/train_gpt/run/pipeline_section.hpp"

#include <fmt/format.h>

#include <numeric>
#include <optional>
#include <vector>

#include "examples/train_gpt/run/timeline_svg.hpp"
#include "training/pipeline/bubble.hpp"

namespace wreath::gpt {

namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

double mean(const std::vector<double>& shares) {
  return std::accumulate(shares.begin(), shares.end(), 0.0) / static_cast<double>(shares.size());
}

std::string row(const std::string& name, double measured, double computed, std::optional<double> paper) {
  return fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>", name, percent(measured),
                     percent(computed), paper ? percent(*paper) : "none");
}

}  // namespace

std::string pipeline_section(const training::PipelineSchedule& schedule,
                             std::span<const training::Timeline> timelines) {
  const training::ScheduleCosts costs = training::mean_costs(timelines);
  const training::SimulatedPipeline computed = training::simulate(schedule, costs).value();
  const std::vector<double> measured = training::idle_shares(timelines);
  const std::optional<double> paper = training::paper_idle_share(schedule, costs);
  std::string html = fmt::format(
      "<h2>The last step's pipeline</h2><p>Idle share of each stage's rank, in the pipeline of rank 0: measured, from "
      "the times of its actions; computed, by the schedule's simulation with the actions' mean times ({:.2f} ms "
      "forward, {:.2f} + {:.2f} ms backward); by the closed form of the schedule's paper, for stages that take equal "
      "times. Ranks that share cores, and messages, make the measured share larger.</p><table><tr><th>rank of the "
      "pipeline</th><th>measured</th><th>computed</th><th>closed form</th></tr>",
      static_cast<double>(costs.forward) / 1e6, static_cast<double>(costs.backward_input) / 1e6,
      static_cast<double>(costs.backward_weights) / 1e6);
  for (std::size_t rank = 0; rank < measured.size(); ++rank) {
    html += row(std::to_string(rank), measured[rank], computed.idle_shares[rank], paper);
  }
  html += row("mean", mean(measured), computed.idle_share, paper) + "</table>\n";
  const TimelinePanel panels[] = {{schedule.name, true, timelines}, {schedule.name, false, computed.timelines}};
  return html + timeline_svg(panels);
}

}  // namespace wreath::gpt
