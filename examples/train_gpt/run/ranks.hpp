// This file gets the ranks of a training program.
#pragma once

#include <memory>

#include "examples/train_gpt/run/command_line.hpp"
#include "wreath/communicator.hpp"

namespace wreath::gpt {

// Returns the world of a launcher, if there is one, whose calls run on the line's device. Otherwise, where more than
// one rank is wanted, this program becomes `wreath run -n ranks` of itself and does not return. It takes the `wreath`
// beside it. The errors are a launcher's world of another size, and no `wreath` there.
Result<std::shared_ptr<Communicator>> join_or_start_ranks(const CommandLine& line, char** argv);

}  // namespace wreath::gpt
