// Reads all parts of a machine, one after the other.
#include "src/topology/parts.hpp"

namespace wreath {

Topology read_topology(const std::string& root) {
  Topology topology;
  read_processors(root, topology);
  read_memory(root, topology);
  read_gpus(root, topology);
  read_networks(root, topology);
  // The kernel and its drivers say more of this machine than files do.
  if (root.empty()) {
    match_namespace(topology);
    ask_nvml("libnvidia-ml.so.1", topology);
  }
  read_identity(root, topology);
  return topology;
}

}  // namespace wreath
