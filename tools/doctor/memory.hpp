// The report of `wreath doctor --memory`.
#pragma once

#include "wreath/result.hpp"

namespace wreath {

// Prints the budgets of jobs, and the memory that `ranks` processes hold. This function starts these processes. The
// caller must have no other threads.
Status report_memory(int ranks, bool as_json);

}  // namespace wreath
