// This file declares the report's table of a rank's communication, beside the results of the formulas.
#pragma once

#include <cstdint>
#include <string>

#include "examples/train_gpt/train/trainer.hpp"

namespace wreath::gpt {

// Returns the cells of the table's head.
std::string traffic_head();
// Returns this rank's rows, one for each group and operation. A row is there where the last `steps` steps communicated
// so, which are all since the accounting began. It is also there where a formula (formulas.hpp) expects communication.
std::string traffic_rows(Trainer& trainer, std::uint64_t steps);

}  // namespace wreath::gpt
