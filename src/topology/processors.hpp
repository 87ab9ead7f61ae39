// Processors and their caches, from /sys/devices/system.
#pragma once

#include <string>

#include "wreath/topology.hpp"

namespace wreath {

// Fills `processors`, `caches` and `allowed`. Without /sys every allowed processor is a core of one package.
void read_processors(const std::string& root, Topology& topology);

}  // namespace wreath
