// Starts a job's ranks on its hosts, passes on their output, and ends them together.
#pragma once

#include "tools/run/plan.hpp"

namespace wreath::launcher {

// Returns the exit code of the rank at fault (verdict.hpp), or 0. Returns 128 + N when signal N ended the job, and 6
// when a host could not be reached. An elastic job returns 0 when the ranks that were left at its end ended with 0,
// even where others were lost before. No process and no folder of the job is left when it returns or is killed.
int launch(const Plan& plan);

}  // namespace wreath::launcher
