// Which rank of which job this process is, as the program says that started it.
#pragma once

#include <string>

#include "wreath/result.hpp"

namespace wreath {

struct EnvironmentJob {
  int rank = 0;
  int ranks = 1;
  std::string source;     // which variables said so, for messages: "torchrun's variables (RANK, WORLD_SIZE)"
  int local_rank = -1;    // among the ranks of this host; -1: not said
  bool launched = false;  // false: nobody says anything, and this process is alone
};

// The innermost launcher wins: WREATH_RANK and WREATH_RANKS (`wreath run`, or by hand), torchrun's RANK and WORLD_SIZE,
// Slurm's SLURM_PROCID and SLURM_STEP_NUM_TASKS. Nothing is connected. Names a variable that is missing or malformed.
Result<EnvironmentJob> environment_job();

}  // namespace wreath
