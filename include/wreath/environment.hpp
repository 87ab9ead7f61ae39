// Which rank of which job this process is, as the program says that started it.
#pragma once

#include <optional>
#include <string>

#include "wreath/result.hpp"

namespace wreath {

struct EnvironmentJob {
  int rank = 0;
  int ranks = 1;
  std::string source;          // which variables said so, for messages: "torchrun's variables (RANK, WORLD_SIZE)"
  int local_rank = -1;         // among the ranks of this host; -1: not said
  bool launched = false;       // false: nobody says anything, and this process is alone
  std::string strangers = {};  // alone, but MPI's launcher started others, which it will not meet: words that say so
};

// The innermost launcher wins: WREATH_RANK and WREATH_RANKS (`wreath run`, or by hand), torchrun's RANK and WORLD_SIZE,
// Slurm's SLURM_PROCID and SLURM_STEP_NUM_TASKS. Nothing is connected. Names a variable that is missing or malformed.
Result<EnvironmentJob> environment_job();

// An elastic job, whose ranks may go and come (`wreath run --elastic`, docs/launching.md).
struct ElasticJob {
  std::string folder;   // private to the job; all its hosts see it
  int min_ranks = 1;    // with fewer it starts again as a whole
  int max_ranks = 1;    // that work at the same time
  int spares = 0;       // of the ranks it was started with, for the start
  int joiner = -1;      // this process's number where it comes later, and is none of environment_job(); else -1
  std::string address;  // of this host, at which those of other hosts reach it; empty: all are of this host
};

// nullopt: WREATH_ELASTIC is not set. Nothing is connected. Names a variable that is missing or malformed.
Result<std::optional<ElasticJob>> elastic_job();

}  // namespace wreath
