// How a training program gets its ranks.
#pragma once

#include <memory>

#include "wreath/communicator.hpp"

namespace wreath::gpt {

// The world of a launcher, if there is one. Otherwise, where more than one rank is wanted, this program becomes
// `wreath run -n ranks` of itself, with the `wreath` beside it, and does not return. Errors: a launcher's world of
// another size; no `wreath` there.
Result<std::shared_ptr<Communicator>> join_or_start_ranks(int ranks, char** argv);

}  // namespace wreath::gpt
