// Describes one call as a value, which Communicator's methods make from their arguments.
#pragma once

#include <cstddef>
#include <span>

#include "wreath/types.hpp"

namespace wreath {

class Stream;  // device.hpp

// Describes blocks of ranks that differ in size, in elements. Both arrays have one entry a rank. `displacements` says
// where each block starts; where it is empty, the blocks follow each other in rank order.
struct Blocks {
  std::span<const std::size_t> counts;
  std::span<const std::size_t> displacements = {};
};

// Describes one call. The caller owns the buffers, which must live until the call is over. Counts and displacements
// are copied when the call is made.
struct Call {
  Collective collective = Collective::AllReduce;
  DataType dtype = DataType::Float32;
  Reduction reduction{};
  Rank root = 0;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  // Counts the elements of the vector, or of one rank's block where a call moves blocks.
  std::size_t count = 0;
  // Describes the blocks of `input` in the v-forms, which use blocks instead of `count`.
  Blocks input_blocks{};
  Blocks output_blocks{};
  // The call begins once the work that the stream holds is over; with null it begins at once.
  Stream* stream = nullptr;

  bool varying() const { return !input_blocks.counts.empty() || !output_blocks.counts.empty(); }
};

}  // namespace wreath
