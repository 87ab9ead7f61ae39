// What `wreath topo` shows, in each of its forms.
#pragma once

#include <string>
#include <vector>

#include "src/json/value.hpp"
#include "tools/topo/links.hpp"
#include "wreath/topology.hpp"

namespace wreath {

// Ranks of which a matrix of links is shown.
inline constexpr int kLargestMatrix = 32;

// Ranks of this machine: the cores that each would get, and what links them.
struct RanksShown {
  std::vector<std::vector<int>> cores;  // by rank; empty: whoever starts them decides
  RankLinks links;
};

// "Intel(R) Xeon(R) Platinum 8480+, Linux 6.1.0".
std::string model_text(const Topology& topology);

std::string topology_tree(const Topology& topology, bool lines);
std::string ranks_table(const RanksShown& ranks);

Json topology_json(const Topology& topology);
Json ranks_json(const RanksShown& ranks);

// A whole SVG file. `ranks`: colours their cores; may be empty.
std::string topology_svg(const Topology& topology, const RanksShown& ranks);

}  // namespace wreath
