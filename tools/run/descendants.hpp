// Ending processes whole: with all that they have started.
#pragma once

namespace wreath::launcher {

// From now on orphans among this process's descendants become its children, so that none is out of reach.
void adopt_orphans();

// Kills all children of this process, and theirs in turn, until none is left; returns how many there were.
int end_descendants();

}  // namespace wreath::launcher
