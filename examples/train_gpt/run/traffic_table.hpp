// The report's table of what a rank communicated, beside what the formulas say.
#pragma once

#include <cstdint>
#include <string>

#include "examples/train_gpt/train/trainer.hpp"

namespace wreath::gpt {

// Cells of the table's head.
std::string traffic_head();
// This rank's rows: one for each group and operation that communicated in the last `steps` steps, which are all since
// the accounting began, or that a formula (formulas.hpp) says should have.
std::string traffic_rows(Trainer& trainer, std::uint64_t steps);

}  // namespace wreath::gpt
