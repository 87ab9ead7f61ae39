// The subcommand `wreath plan simulate`: times rows on a machine of equal links.
#include <fmt/format.h>

#include "src/command_line/program.hpp"
#include "src/json/value.hpp"
#include "tools/plan.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

void print_header(const PlanShape& shape, const FlatModel& model) {
  fmt::print("{} of float32; links of {} us and {} GB/s, reductions {} GB/s, copies {} GB/s\n\n",
             format_bytes(shape.bytes), model.latency_us, model.bandwidth_gb_s, model.reduction_gb_s, model.copy_gb_s);
  fmt::print("{:<14} {:<18} {:<9} {:>6} {:>12} {:>6} {:>12} {:>9}\n", "collective", "algorithm", "order", "ranks",
             "time us", "steps", "bytes sent", "messages");
}

void print_row(const Algorithm& row, int ranks, const Simulated& simulated) {
  fmt::print("{:<14} {:<18} {:<9} {:>6} {:>12.2f} {:>6} {:>12} {:>9}\n", name(row.collective), row.name,
             name(row.order), ranks, simulated.time_us, simulated.steps, simulated.bytes, simulated.messages);
}

Json to_json(const Algorithm& row, const Problem& problem, const Simulated& simulated) {
  return {{"collective", name(row.collective)},
          {"algorithm", row.name},
          {"order", name(row.order)},
          {"ranks", problem.ranks},
          {"root", problem.root},
          {"time_us", simulated.time_us},
          {"steps", simulated.steps},
          {"bytes", simulated.bytes},
          {"messages", simulated.messages}};
}

}  // namespace

int run_plan_simulate(const PlanArguments& arguments) {
  const Result<PlanCases> cases = cases_of(arguments, "8");
  if (!cases) return command_line::fail(cases.error());

  Json results = Json::array();
  for (const auto& [row, problem] : cases->problems) {
    const Result<Simulated> simulated = simulate(*row, problem, point_of(problem, cases->shape), arguments.model);
    if (!simulated) return command_line::fail(simulated.error());
    if (!arguments.json && results.empty()) print_header(cases->shape, arguments.model);
    if (!arguments.json) print_row(*row, problem.ranks, *simulated);
    results.push_back(to_json(*row, problem, *simulated));
  }
  if (results.empty()) {
    return command_line::fail(
        {ErrorCode::InvalidArgument,
         fmt::format("nothing to simulate: none of these rows serves {} ranks", range_text(cases->ranks)), -1});
  }
  if (arguments.json) fmt::print("{}\n", Json{{"results", results}}.dump({.indent = 2, .sorted = true}));
  return 0;
}

}  // namespace wreath
