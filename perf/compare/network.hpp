// A network of the run's own: the loopback interface alone, under a congestion control of choice.
#pragma once

#include <string>

#include "wreath/result.hpp"

namespace wreath::perf {

// Moves this process, and with it the programs that it starts, into a network namespace where new connections use
// `congestion_control`. For programs with one thread. Unavailable: the rights (root) or that algorithm lack here.
Status enter_own_network(const std::string& congestion_control);

// What new TCP connections of this process use; empty: unknown.
std::string congestion_control();

}  // namespace wreath::perf
