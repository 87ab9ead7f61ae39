// A run whose ranks may go and come (training/elastic).
#pragma once

#include "examples/train_gpt/run/command_line.hpp"
#include "wreath/environment.hpp"
#include "wreath/result.hpp"

namespace wreath::gpt {

// Every member of the job calls it; returns when the whole run is over. `code` is what the program ends with where it
// fails.
Status train_elastic(const ElasticJob& job, const CommandLine& line, int& code);

}  // namespace wreath::gpt
