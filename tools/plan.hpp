// The arguments that the subcommands of `wreath plan` share, and the functions that read them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "wreath/plan.hpp"
#include "wreath/transport.hpp"

namespace wreath {

// The bytes of a float32, for which plans are shown, proved and timed.
inline constexpr std::uint32_t kPlanElementBytes = 4;

struct PlanArguments {
  std::string collective;
  std::string size;
  std::string ranks;
  std::string algorithm;
  std::string tile = "256K";
  int rank = -1;
  int root = -1;  // -1: every root where proofs are made, else 0
  int lanes = 1;
  bool all = false;
  bool json = false;
  bool markdown = false;
  std::string transport = transports_between_processes().front();
  std::string memory = "host";
  std::string tuning;  // a file, none, or empty: this machine's
  // Proofs allow sums in any order, not only canonical sums.
  bool any_order = false;
  FlatModel model;
};

struct RankRange {
  int first = 1;
  int last = 64;
};

// Returns the ranks that --ranks names, or those of `fallback`. An error names --root where it is none of them.
Result<RankRange> ranks_of(const PlanArguments& arguments, const std::string& fallback);
std::string range_text(RankRange ranks);
// Returns the rows that the arguments name.
Result<std::vector<const Algorithm*>> select_rows(const PlanArguments& arguments);
// Returns SIZE, --tile and --lanes as numbers.
Result<PlanShape> parse_shape(const PlanArguments& arguments);
// Returns the problems that a row supports on `ranks` ranks. Their root is the one of the arguments, each root where
// `every_root` is true, or else root 0.
std::vector<Problem> problems_of(const Algorithm& row, int ranks, const PlanArguments& arguments, bool every_root);

// The problems of a question about schedules, with the row that each is for.
struct PlanCases {
  RankRange ranks;
  PlanShape shape;
  std::vector<std::pair<const Algorithm*, Problem>> problems;
};
Result<PlanCases> cases_of(const PlanArguments& arguments, const std::string& ranks);

// These functions run the subcommands and return their exit codes.
int run_plan_verify(const PlanArguments& arguments);
int run_plan_simulate(const PlanArguments& arguments);
int run_plan_explain(const PlanArguments& arguments);

}  // namespace wreath
