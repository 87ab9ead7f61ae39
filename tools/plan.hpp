// What the subcommands of `wreath plan` share: their arguments and how these are read.
#pragma once

#include <string>
#include <vector>

#include "wreath/plan.hpp"
#include "wreath/transport.hpp"

namespace wreath {

inline constexpr std::uint32_t kPlanElementBytes = 4;  // plans are shown, proved and timed for float32

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
  std::string tuning;      // a file, none, or empty: this machine's
  bool any_order = false;  // not only canonical sums
  FlatModel model;
};

struct RankRange {
  int first = 1;
  int last = 64;
};

// What --ranks says, or `fallback`; --root must be one of them.
Result<RankRange> ranks_of(const PlanArguments& arguments, const std::string& fallback);
std::string range_text(RankRange ranks);
// The rows the arguments name.
Result<std::vector<const Algorithm*>> select_rows(const PlanArguments& arguments);
// SIZE, --tile and --lanes as numbers.
Result<PlanShape> parse_shape(const PlanArguments& arguments);
// Problems of a row on `ranks` ranks: of the root the arguments name, or `every_root`, or root 0. Those it supports.
std::vector<Problem> problems_of(const Algorithm& row, int ranks, const PlanArguments& arguments, bool every_root);
// Prints the error; returns the exit code.
int report(const Error& error);

// Exit codes of the subcommands.
int run_plan_verify(const PlanArguments& arguments);
int run_plan_simulate(const PlanArguments& arguments);
int run_plan_explain(const PlanArguments& arguments);

}  // namespace wreath
