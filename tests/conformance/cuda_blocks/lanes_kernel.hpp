// The executor's kernel for the driver that stands for CUDA's: blocks of host threads, which first look whether a GPU
// would reach what they are given.
#pragma once

#include <string>
#include <vector>

#include "tests/support/fake_cuda.hpp"
#include "wreath/kernel.hpp"

namespace wreath::test {

// A grid of a few threads a block, until its end.
void run_blocks(const Kernel& kernel, unsigned blocks, const void* argument);

// Gives it to the driver. False: the driver of this process is another one.
bool install_lanes_kernel();

// Grids that ran since it was asked last, and what in their arguments a GPU would not have reached.
struct LanesSeen {
  int grids = 0;
  int handwritten_grids = 0;       // by handwritten loops
  int waiting_grids = 0;           // whose blocks wait for others
  unsigned blocks = 0;             // of the largest
  int references = 0;              // lanes that told readers where data is, instead of copying it
  bool loaded_from_peers = false;  // blocks loaded another device's memory
  std::vector<std::string> unreachable;
};
LanesSeen take_lanes_seen();

}  // namespace wreath::test
