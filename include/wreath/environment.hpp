// Reads which rank of which job this process is, as the program that started it says.
#pragma once

#include <optional>
#include <string>

#include "wreath/result.hpp"

namespace wreath {

struct EnvironmentJob {
  int rank = 0;
  int ranks = 1;
  // Names the variables that said so, for messages: "torchrun's variables (RANK, WORLD_SIZE)".
  std::string source;
  // Holds the number among the ranks of this host, or -1 where no variable says it.
  int local_rank = -1;
  // Is false where no variable says anything; this process is alone then.
  bool launched = false;
  // Says that MPI's launcher started other processes, which this lone process will not meet; empty otherwise.
  std::string strangers = {};
};

// Returns the job that the innermost launcher describes. From the innermost on, these are: WREATH_RANK and
// WREATH_RANKS (`wreath run`, or by hand), torchrun's RANK and WORLD_SIZE, OMPI_COMM_WORLD_* and PMI_*, Slurm's
// SLURM_PROCID and so on. Connects to nothing. An error names the variable that is missing or malformed.
Result<EnvironmentJob> environment_job();

// Describes an elastic job, whose ranks may leave and join (`wreath run --elastic`, docs/launching.md).
struct ElasticJob {
  // Names a folder that is private to the job and that all its hosts see.
  std::string folder;
  // With fewer ranks the job starts again as a whole.
  int min_ranks = 1;
  // At most so many ranks work at the same time.
  int max_ranks = 1;
  // Counts the spares among the ranks that the job was started with; it matters at the start only.
  int spares = 0;
  // Holds this process's number where it joins later and is no rank of environment_job(); else -1.
  int joiner = -1;
  // Holds this host's address, at which ranks of other hosts reach it; empty where all ranks are on this host.
  std::string address;
};

// Returns the elastic job, or nullopt where WREATH_ELASTIC is not set. Connects to nothing. An error names the
// variable that is missing or malformed.
Result<std::optional<ElasticJob>> elastic_job();

}  // namespace wreath
