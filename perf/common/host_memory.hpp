// Compares the buffers of a run with its hosts' memory, before they are made.
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

// The host memory that each rank is about to allocate.
struct BufferNeed {
  std::string asked;  // as the user writes it: "--size 1T"
  double bytes = 0;   // of a buffer
  int buffers = 0;
};
// Returns the need of a perf tool's rank. Buffers of a GPU take no memory of the host.
BufferNeed need_of(const Options& options, const Extent& extent);

struct HostMemory {
  std::string name;  // empty: this one
  int ranks = 0;
  double available_bytes = 0;
};
HostMemory this_host(int ranks);

// System, with what is needed and what is there, where all ranks' buffers do not fit into the host's memory.
Status check_host_memory(const BufferNeed& need, const HostMemory& host);

}  // namespace wreath::perf
