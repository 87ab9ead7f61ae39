// Training options drawn at random.
#pragma once

#include <cstdint>
#include <string>

#include "tests/training/meshes/runs.hpp"

namespace wreath::gpt::test {

// A mesh of up to 8 ranks, with odd sizes and every other option: the same for a seed.
TrainOptions draw_options(std::uint64_t seed);
std::string describe(const TrainOptions& options);

}  // namespace wreath::gpt::test
