// Random edits of lowered schedules, to test verify() and whoever else claims to notice a wrong one.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "src/schedule/step.hpp"

namespace wreath {

// Applies one random edit to one rank's program, or the same to every rank's; says what it did. programs[r] is what
// rank r runs; some rank has a step. The result may be malformed, wrong, slow, or as good as before.
std::string mutate(std::vector<Lowered>& programs, std::mt19937_64& random);

}  // namespace wreath
