// Starts a job's ranks on its hosts, passes on what they say, and ends them together.
#pragma once

#include "tools/run/plan.hpp"

namespace wreath::launcher {

// The exit code: of the rank at fault (verdict.hpp), 128 + N when signal N ended the job, 6 when a host could not be
// reached, 0. Of an elastic job: 0 when those that were left at its end ended with 0, whoever was lost before. No
// process of the job is left when it returns, and no folder; nor when it is killed.
int launch(const Plan& plan);

}  // namespace wreath::launcher
