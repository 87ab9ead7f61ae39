// Draws training options at random.
#pragma once

#include <cstdint>
#include <string>

#include "tests/training/meshes/runs.hpp"

namespace wreath::gpt::test {

// Returns a mesh of up to 8 ranks with odd sizes and values for every other option. A seed always gives the same.
TrainOptions draw_options(std::uint64_t seed);
std::string describe(const TrainOptions& options);

}  // namespace wreath::gpt::test
