// How a training program gets its ranks.
#pragma once

#include <memory>

#include "examples/train_gpt/run/command_line.hpp"
#include "wreath/communicator.hpp"

namespace wreath::gpt {

// The world of a launcher, if there is one, whose calls are of the line's device. Otherwise, where more than one rank
// is wanted, this program becomes `wreath run -n ranks` of itself, with the `wreath` beside it, and does not return.
// Errors: a launcher's world of another size; no `wreath` there.
Result<std::shared_ptr<Communicator>> join_or_start_ranks(const CommandLine& line, char** argv);

}  // namespace wreath::gpt
