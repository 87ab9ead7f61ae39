// The tcp limit: how fast two processes can swap messages over loopback, without any protocol.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "perf/limits/effort.hpp"

namespace wreath::perf {

// Microseconds in which two pinned, busy-polling processes each send `bytes` and receive `bytes` over one
// loopback connection: what an all-reduce of 2 ranks must move. The best of the congestion controls that may
// be used here. Forks a child for the time of the call, so ranks that spin meanwhile spoil the figure. NaN with
// fewer than two cores, or when loopback sockets cannot be had.
double tcp_exchange_limit_us(std::size_t bytes, const Effort& effort = {});

// Names that setsockopt(TCP_CONGESTION) takes without privilege: "reno", "cubic", ...
std::vector<std::string> congestion_controls();

}  // namespace wreath::perf
