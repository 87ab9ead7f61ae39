// `wreath doctor --memory`.
#pragma once

#include "wreath/result.hpp"

namespace wreath {

// Prints the budgets of jobs, and what `ranks` processes hold that it starts. The caller has no threads.
Status report_memory(int ranks, bool as_json);

}  // namespace wreath
