// How `wreath topo` cuts a machine into parts, and says what each is: for the tree and for the picture.
#pragma once

#include <string>
#include <vector>

#include "wreath/topology.hpp"

namespace wreath {

// Cores behind one last-level cache.
struct CoreGroup {
  const Cache* cache = nullptr;         // null: none is known
  std::vector<std::vector<int>> cores;  // of each the numbers of its hardware threads

  std::vector<int> threads() const;  // of all cores, ascending
};

struct NodePart {
  const NumaNode* node = nullptr;  // null: of processors that no node has
  int number = 0;
  std::vector<CoreGroup> groups;
};

struct PackagePart {
  int number = -1;  // -1: nodes that have memory only
  std::vector<NodePart> nodes;
};

std::vector<PackagePart> packages_of(const Topology& topology);

// A device as a line: what it is called, and what there is to say. `node` -1: near none.
struct DeviceLine {
  enum class Kind { Gpu, Rdma, Interface } kind = Kind::Gpu;
  int node = -1;
  std::string name;
  std::string text;
  bool usable = true;  // it is up, and has a driver
};

// All but interfaces that are virtual and have no address, whose names `hidden` gets.
std::vector<DeviceLine> devices_of(const Topology& topology, std::vector<std::string>* hidden);

bool is_allowed(const Topology& topology, int processor);

// "L3 32 MiB", "L1i 32 KiB".
std::string cache_text(const Cache& cache);
// "each L2 2 MiB, L1d 48 KiB": caches nearer than the group's, of its first core; empty where there are none.
std::string near_caches_text(const Topology& topology, const CoreGroup& group);

}  // namespace wreath
