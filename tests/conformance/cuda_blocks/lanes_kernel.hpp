// Gives the executor's kernel to the fake CUDA driver. Its blocks of host threads first look whether a GPU would reach
// the memory in their arguments.
#pragma once

#include <string>
#include <vector>

#include "tests/support/fake_cuda.hpp"
#include "wreath/kernel.hpp"

namespace wreath::test {

// Runs a grid of a few threads a block until its end.
void run_blocks(const Kernel& kernel, unsigned blocks, const void* argument);

// Gives the kernel to the driver. Returns false where this process has another driver.
bool install_lanes_kernel();

// Counts the grids that ran since it was last asked, and lists memory in their arguments that a GPU would not reach.
struct LanesSeen {
  int grids = 0;
  int handwritten_grids = 0;  // of handwritten loops
  int waiting_grids = 0;      // grids whose blocks wait for others
  unsigned blocks = 0;        // of the largest grid
  // Counts the lanes that named data to readers instead of copying it.
  int references = 0;
  bool loaded_from_peers = false;  // blocks loaded another device's memory
  std::vector<std::string> unreachable;
};
LanesSeen take_lanes_seen();

}  // namespace wreath::test
