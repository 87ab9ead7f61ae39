// Random edits of lowered schedules test verify(), and all others that claim to notice a wrong schedule.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "src/schedule/step.hpp"

namespace wreath {

// Applies one random edit to one rank's program, or the same to every rank's, and says what it did. Rank r runs
// programs[r], and some rank has a step. The result may be malformed, wrong, slow, or as good as before.
std::string mutate(std::vector<Lowered>& programs, std::mt19937_64& random);

}  // namespace wreath
