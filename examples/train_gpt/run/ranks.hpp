// How a training program gets its ranks.
#pragma once

#include <memory>

#include "examples/train_gpt/train/options.hpp"
#include "wreath/communicator.hpp"

namespace wreath::gpt {

// The world of a launcher, if there is one, whose calls are of options.device. Otherwise, where more than one rank is
// wanted, this program becomes `wreath run -n ranks` of itself, with the `wreath` beside it, and does not return.
// Errors: a launcher's world of another size; no `wreath` there.
Result<std::shared_ptr<Communicator>> join_or_start_ranks(const TrainOptions& options, char** argv);

}  // namespace wreath::gpt
