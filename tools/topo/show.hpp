// The forms in which `wreath topo` shows a machine.
#pragma once

#include <string>
#include <vector>

#include "src/json/value.hpp"
#include "tools/topo/links.hpp"
#include "wreath/topology.hpp"

namespace wreath {

// The most ranks for which a matrix of links is shown.
inline constexpr int kLargestMatrix = 32;

// The ranks of this machine: the cores that each rank would get, and the links between them.
struct RanksShown {
  // The cores by rank; empty: the program that starts the ranks chooses them.
  std::vector<std::vector<int>> cores;
  RankLinks links;
};

// Returns a text such as "Intel(R) Xeon(R) Platinum 8480+, Linux 6.1.0".
std::string model_text(const Topology& topology);

std::string topology_tree(const Topology& topology, bool lines);
std::string ranks_table(const RanksShown& ranks);

Json topology_json(const Topology& topology);
Json ranks_json(const RanksShown& ranks);

// Returns a whole SVG file. `ranks` gives their cores colours, and may be empty.
std::string topology_svg(const Topology& topology, const RanksShown& ranks);

}  // namespace wreath
