// What the buffers of a run take of its hosts' memory, looked at before they are made.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "perf/common/collectives.hpp"
#include "perf/common/options.hpp"

namespace wreath::perf {

// The largest case, and the widest element.
struct Extent {
  std::size_t bytes = 0;
  std::size_t element_bytes = 1;
};
Extent extent_of(const std::vector<Case>& cases);

// Bytes before the first element of a buffer, by --offset and -u.
std::size_t offset_of(const Options& options, const Extent& extent);

// A host of the run: its ranks, and what they may take.
struct HostMemory {
  std::string name;  // empty: this one
  int ranks = 0;
  double available_bytes = 0;
};

// System, with what is needed and what is there, where buffers of `extent` for all ranks of a host do not fit into its
// memory. Those that are a GPU's take none of it.
Status check_host_memory(const Options& options, const Extent& extent, const HostMemory& host);

}  // namespace wreath::perf
