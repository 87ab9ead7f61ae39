// Makes a woken thread run sooner.
#pragma once

namespace wreath {

// Asks for the shortest turns for the calling thread. Linux 6.12 and later serves short turns first: a woken thread
// then goes before one that computes at once, and not milliseconds later. Its share of the processor stays as it is.
// Elsewhere nothing happens.
void ask_for_short_turns() noexcept;

}  // namespace wreath
