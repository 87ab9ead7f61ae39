// The table of kernels per processor: what executors call to move and reduce bytes.
#pragma once

#include <cstddef>

#include "wreath/types.hpp"

namespace wreath {

// Reduces `elements` elements: target[i] = canonical sum over sources[0..k) of sources[j][i].
// The canonical sum of k values is the balanced tree that pairs neighbours first; k beyond the
// largest power of two folds into pairs (2i, 2i+1) first. target may equal any source exactly;
// other overlap is not allowed. Pointers may be misaligned, not null. k >= 1. Floats round to nearest even with
// subnormals kept (in the default floating-point environment); a sum that is NaN is 0x7fc00000 whatever its
// inputs' payloads. Integers wrap. k = 1 is a copy: NaN bits pass unchanged.
using ReduceKernel = void (*)(std::byte* target, const std::byte* const* sources, int k, std::size_t elements);

// Copies between memory that does not overlap.
using CopyKernel = void (*)(std::byte* target, const std::byte* source, std::size_t bytes);

struct CopyKernels {
  CopyKernel plain;   // ordinary stores
  CopyKernel fill;    // into a slot that a peer read before: whole lines without fetching its copy
  CopyKernel stream;  // non-temporal stores, for outputs larger than the caches
};

// The kernel of a (dtype, op), for the best instruction set of this machine; never null.
ReduceKernel reduce_kernel(DataType dtype, ReduceOp op) noexcept;
const CopyKernels& copy_kernels() noexcept;

// Every instruction set compiled in that this machine can run, best first ("AVX3", "AVX2", "SSE2", ...):
// tests hold each to the scalar reference.
struct ReduceTarget {
  const char* name;
  ReduceKernel kernel;
};
std::size_t reduce_targets(DataType dtype, ReduceOp op, ReduceTarget* targets, std::size_t capacity) noexcept;

// One element at a time, in plain C++: the meaning of the kernels above.
void reduce_reference(DataType dtype, ReduceOp op, std::byte* target, const std::byte* const* sources, int k,
                      std::size_t elements) noexcept;

}  // namespace wreath
