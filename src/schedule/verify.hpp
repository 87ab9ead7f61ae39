// Proves that an algorithm is right, on the lowered steps of all ranks, which the executors read.
//
// One greedy run with unlimited slots proves values, message sizes and hazards for every K and R. One greedy run of
// tokens per K and R decides deadlock. Nothing depends on data or on timing.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "src/schedule/machine.hpp"
#include "src/schedule/meaning.hpp"
#include "src/schedule/shapes.hpp"
#include "wreath/plan.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Puts a row's problem before an error: "binomial broadcast on 4 ranks, root 1: ". A point of it comes in between.
Error in_problem(const Algorithm& algorithm, const Problem& problem, const Error& error, std::string_view point = {});

// Returns the lowered schedules of all ranks.
Result<std::vector<Lowered>> lower_all(const Algorithm& algorithm, const Problem& problem, int data_lanes);

// Does the same as verify() of wreath/plan.hpp for programs from another source. Rank r runs programs[r].
// options.data_lanes is not used, because the programs have it.
Status verify(std::span<const Lowered> programs, const Claim& claim, const VerifyOptions& options);

// Checks the values of a linked machine. This is the first half of verify().
Status verify_values(const Machine& machine, const Claim& claim, const Shapes& shapes, bool in_place,
                     std::uint32_t operations);
// Checks the flow of a linked machine. This is the second half of verify().
Status verify_flow(const Machine& machine, const Extents& extents, const RunOptions& options);

// Returns InvalidArgument where the options do not fit the claim.
Status check_options(const Claim& claim, const VerifyOptions& options);

// Makes one greedy run. Returns Mismatch where it deadlocks, leaves messages over, or a hook ends it.
template <typename Hooks>
Status run_to_end(const Machine& machine, const Extents& extents, const RunOptions& options, Hooks& hooks) {
  using Run = GreedyRun<Hooks>;
  Run run(machine, extents, options, hooks);
  switch (run.run()) {
    case Run::End::Done: return {};
    case Run::End::Hook: return Error{ErrorCode::Mismatch, "ended early"};
    case Run::End::Deadlock: return Error{ErrorCode::Mismatch, "deadlock: " + run.stuck()};
    case Run::End::Leftover: return Error{ErrorCode::Mismatch, run.stuck()};
  }
  return {};
}

}  // namespace wreath
