// A network for one run: only the loopback interface, with a chosen congestion control.
#pragma once

#include <string>

#include "wreath/result.hpp"

namespace wreath::perf {

// Moves this process, and with it the programs that it starts, into a network namespace in which new connections use
// `congestion_control`. Only a program with one thread may call it. Returns Unavailable where the rights (root) or that
// algorithm are missing.
Status enter_own_network(const std::string& congestion_control);

// Returns the congestion control of new TCP connections of this process; empty: unknown.
std::string congestion_control();

}  // namespace wreath::perf
