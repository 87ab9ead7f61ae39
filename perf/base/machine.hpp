// The facts that a run states about the machine, and the cores of its ranks.
#pragma once

#include <string>
#include <vector>

namespace wreath::perf {

std::string host_name();
std::string cpu_name();
// Returns the cores that this process may use, ascending.
std::vector<int> allowed_cores();
// Binds the calling thread to one core. Returns false when the system refuses.
bool pin_thread(int core);
// Returns the nanoseconds of one reading of the clock.
double clock_cost_ns();
// Returns the local time, such as "2026-01-31 12:00:00".
std::string now_text();

}  // namespace wreath::perf
