// One call, described as a value: what Communicator's methods make of their arguments.
#pragma once

#include <cstddef>
#include <span>

#include "wreath/types.hpp"

namespace wreath {

class Stream;  // device.hpp

// Blocks of ranks that differ in size, in elements. `displacements`: where each block starts; empty: one after the
// other in rank order. Both have one entry a rank.
struct Blocks {
  std::span<const std::size_t> counts;
  std::span<const std::size_t> displacements = {};
};

// Buffers belong to the caller and live until the call is over; counts and displacements are copied when it is made.
struct Call {
  Collective collective = Collective::AllReduce;
  DataType dtype = DataType::Float32;
  Reduction reduction{};
  Rank root = 0;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t count = 0;  // elements of the vector; of one rank's block where a call moves blocks
  Blocks input_blocks{};  // the v-forms: instead of `count`
  Blocks output_blocks{};
  Stream* stream = nullptr;  // begin once what the stream holds is over; null: at once

  bool varying() const { return !input_blocks.counts.empty() || !output_blocks.counts.empty(); }
};

}  // namespace wreath
