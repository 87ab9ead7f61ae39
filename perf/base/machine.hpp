// What a run says about the machine, and where its ranks run.
#pragma once

#include <string>
#include <vector>

namespace wreath::perf {

std::string host_name();
std::string cpu_name();
// Cores this process may use, ascending.
std::vector<int> allowed_cores();
// Binds the calling thread to one core; false when refused.
bool pin_thread(int core);
// Nanoseconds that one look at the clock costs.
double clock_cost_ns();
// "2026-01-31 12:00:00", local time.
std::string now_text();

}  // namespace wreath::perf
