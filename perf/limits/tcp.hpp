// The tcp limit: the time in which two processes swap messages over loopback, without any protocol.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "perf/limits/effort.hpp"

namespace wreath::perf {

// Returns the microseconds in which two pinned processes each send and receive `bytes` over one loopback connection,
// with polling. An all-reduce of 2 ranks must move as much. It is the best time of the congestion controls that may be
// used here. It forks a child for the time of the call, and ranks that spin meanwhile make the result wrong. Returns
// NaN with fewer than two cores, or when there are no loopback sockets.
double tcp_exchange_limit_us(std::size_t bytes, const Effort& effort = {});

// Returns the names that setsockopt(TCP_CONGESTION) takes without privilege, such as "reno" and "cubic".
std::vector<std::string> congestion_controls();

}  // namespace wreath::perf
