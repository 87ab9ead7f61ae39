// Compares the buffers of a run with the memory of its hosts, before the buffers are made.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "perf/common/collectives.hpp"
#include "perf/common/options.hpp"

namespace wreath::perf {

// The size of the largest case, and of the widest element.
struct Extent {
  std::size_t bytes = 0;
  std::size_t element_bytes = 1;
};
Extent extent_of(const std::vector<Case>& cases);

// Returns the bytes before the first element of a buffer, by --offset and -u.
std::size_t offset_of(const Options& options, const Extent& extent);

// The host memory that each rank is about to allocate.
struct BufferNeed {
  std::string asked;  // the user's flag: "--size 1T"
  double bytes = 0;   // of a buffer
  int buffers = 0;
};
// Returns the need of a perf tool's rank. Buffers of a GPU take no memory of the host.
BufferNeed need_of(const Options& options, const Extent& extent);

struct HostMemory {
  std::string name;  // empty: this host
  int ranks = 0;
  double available_bytes = 0;
};
HostMemory this_host(int ranks);

// Returns System where the buffers of all ranks do not fit into the host's memory. The error names the needed and the
// available memory.
Status check_host_memory(const BufferNeed& need, const HostMemory& host);

}  // namespace wreath::perf
