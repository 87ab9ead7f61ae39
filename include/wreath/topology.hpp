// What a machine is made of, as its kernel shows it, and which of its cores each of several ranks gets.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace wreath {

// A hardware thread, by the kernel's number.
struct Processor {
  int number = 0;
  int core = 0;  // the lowest number among the hardware threads of its core
  int package = 0;
  int node = 0;  // NUMA
};

enum class CacheKind { Data, Instruction, Unified };

struct Cache {
  int level = 0;
  CacheKind kind = CacheKind::Unified;
  std::size_t bytes = 0;
  std::vector<int> processors;  // who share it, ascending
};

struct Topology {
  std::vector<Processor> processors;  // online ones: by package, node, core, number
  std::vector<Cache> caches;          // by level, kind, first processor
  std::vector<int> allowed;           // numbers of the processors that this thread may run on, ascending
  std::vector<std::string> unknown;   // a sentence for each part that could not be read
};

// Never fails: what cannot be read is missing, and named in `unknown`. `root` stands for / (a copy of another machine's
// /sys and /proc, say).
Topology read_topology(const std::string& root = "");

// For each of `ranks` processes of this machine the numbers of the hardware threads it may use, ascending: parts of
// `allowed` that do not overlap, neighbours together, no rank across packages, NUMA nodes or last-level caches that
// could fit into one, and whole cores while there is one for each rank. Some cores may be left over. With more ranks
// than hardware threads every rank gets all that is allowed.
std::vector<std::vector<int>> share_cores(const Topology& topology, int ranks);

}  // namespace wreath
