// A run whose ranks may go and come (training/elastic).
#pragma once

#include "examples/train_gpt/run/session.hpp"
#include "wreath/environment.hpp"
#include "wreath/result.hpp"

namespace wreath::gpt {

// Every member of the job calls it; returns when the whole run is over, or when SIGTERM came to this member and all
// that it knows is in a checkpoint: the others go on without it.
Ending train_elastic(const ElasticJob& job, const CommandLine& line);

}  // namespace wreath::gpt
