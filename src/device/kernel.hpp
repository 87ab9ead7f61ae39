// A kernel: what all threads of all blocks of a grid do. Compiled twice, for a GPU and for the host, where each block
// is a group of threads with a barrier.
#pragma once

#include <cstddef>

namespace wreath {

class HostBlock;

struct Kernel {
  const char* name;   // of the function in the CUDA module
  const void* image;  // the module's code for GPUs; null: this build has none
  // The same on the host, called by each thread of each block.
  void (*host)(HostBlock& block, const void* arguments);
};

// A grid of one kernel. The kernel has one parameter by value: `bytes` at `arguments`.
struct Grid {
  int blocks;
  int threads;  // of each
  const void* arguments;
  std::size_t bytes;
};

}  // namespace wreath
