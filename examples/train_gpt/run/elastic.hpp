// This file declares a run whose ranks may leave and join (training/elastic).
#pragma once

#include "examples/train_gpt/run/session.hpp"
#include "wreath/environment.hpp"
#include "wreath/result.hpp"

namespace wreath::gpt {

// Runs elastic training; every member of the job calls it. Returns when the whole run is over. It also returns when
// SIGTERM came to this member and a checkpoint has all of its state; the others then continue without it.
Ending train_elastic(const ElasticJob& job, const CommandLine& line);

}  // namespace wreath::gpt
