// Gives the prior: how long a row takes on a kind of links, by the simulator of its very schedule.
#pragma once

#include <cstddef>

#include "src/tuner/tuner.hpp"
#include "wreath/plan.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Returns constants of a kind of links, from measurements on one machine of two cores (docs/decisions/0008). `cores`
// are those of the ranks' own hosts together; where they are fewer than the ranks, these share them. `bytes` are the
// call's: calls that leave the caches move bytes slower.
FlatModel link_model(bool mapped, int ranks, int cores, std::size_t bytes);

// Returns the microseconds of a call of `bytes` bytes. Tiles beyond some are not simulated: the last simulated ones
// tell the time of the others.
Result<double> predict_us(const Choice& choice, int ranks, std::size_t bytes, const FlatModel& model);

}  // namespace wreath
