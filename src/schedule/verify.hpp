// Proof that an algorithm is right, on the lowered steps of all ranks: those the executors read.
//
// One greedy run with unlimited slots proves values, message sizes and hazards for every K and R; one greedy
// run of tokens per K and R decides deadlock. Nothing depends on data or on timing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/schedule/machine.hpp"
#include "src/schedule/meaning.hpp"
#include "src/schedule/shapes.hpp"
#include "wreath/plan.hpp"
#include "wreath/result.hpp"

namespace wreath {

// The lowered schedules of all ranks.
Result<std::vector<Lowered>> lower_all(const Algorithm& algorithm, const Problem& problem, int data_lanes);

// verify() of wreath/plan.hpp for programs that come from elsewhere: programs[r] is what rank r runs.
// options.data_lanes is not used: the programs say it.
Status verify(std::span<const Lowered> programs, const Claim& claim, const VerifyOptions& options);

// The two halves of verify, for a linked machine.
Status verify_values(const Machine& machine, const Claim& claim, const Shapes& shapes, bool in_place,
                     std::uint32_t operations);
Status verify_flow(const Machine& machine, const Extents& extents, const RunOptions& options);

// InvalidArgument where the options do not fit the claim.
Status check_options(const Claim& claim, const VerifyOptions& options);

// One greedy run: Mismatch where it deadlocks, leaves messages over, or a hook ends it.
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
