// How soon a woken thread runs.
#pragma once

namespace wreath {

// The calling thread asks for the shortest turns: where the scheduler serves short turns first (Linux 6.12 and later),
// it then goes before a thread that computes as soon as it is woken, and not milliseconds later. Its share of the
// processor stays as it is. Elsewhere nothing happens.
void ask_for_short_turns() noexcept;

}  // namespace wreath
