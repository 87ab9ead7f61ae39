// Cuts a machine into the parts of `wreath topo`, and describes each part for the tree and for the picture.
#pragma once

#include <string>
#include <vector>

#include "wreath/topology.hpp"

namespace wreath {

// The cores behind one last-level cache.
struct CoreGroup {
  const Cache* cache = nullptr;  // null: none is known
  // The numbers of the hardware threads of each core.
  std::vector<std::vector<int>> cores;

  // Returns the threads of all cores, ascending.
  std::vector<int> threads() const;
};

struct NodePart {
  // The NUMA node; null: the part has processors that belong to no node.
  const NumaNode* node = nullptr;
  int number = 0;
  std::vector<CoreGroup> groups;
};

struct PackagePart {
  int number = -1;  // -1: nodes that have memory only
  std::vector<NodePart> nodes;
};

std::vector<PackagePart> packages_of(const Topology& topology);

// A device as a line: its name and its description. The node -1 means that it is near no node.
struct DeviceLine {
  enum class Kind { Gpu, Rdma, Interface } kind = Kind::Gpu;
  int node = -1;
  std::string name;
  std::string text;
  // The device is up, and has a driver.
  bool usable = true;
};

// Returns all devices but interfaces that are virtual and have no address. `hidden` receives the names of those.
std::vector<DeviceLine> devices_of(const Topology& topology, std::vector<std::string>* hidden);

bool is_allowed(const Topology& topology, int processor);

// Returns a text such as "L3 32 MiB" or "L1i 32 KiB".
std::string cache_text(const Cache& cache);
// Returns a text such as "each L2 2 MiB, L1d 48 KiB", with the other caches of the group's first core. Empty where
// there are none.
std::string near_caches_text(const Topology& topology, const CoreGroup& group);

}  // namespace wreath
