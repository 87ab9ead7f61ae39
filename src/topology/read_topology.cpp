// All parts of a machine, one after the other.
#include "src/topology/processors.hpp"
#include "wreath/topology.hpp"

namespace wreath {

Topology read_topology(const std::string& root) {
  Topology topology;
  read_processors(root, topology);
  return topology;
}

}  // namespace wreath
