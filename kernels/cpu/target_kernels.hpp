// The kernels of one instruction set, and the sets there are: reduce.cpp makes them, combine.cpp puts them together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kernels.hpp"

namespace wreath {

// Combines k elements of one type into one, in the canonical tree; k is a power of two up to `largest_k`, or, where
// `every_k` says so, any up to it.
using TreeKernel = void (*)(std::byte* target, const std::byte* const* sources, int k, std::size_t elements);
// Turns one form into the other; target may equal source where both have one size.
using ConvertKernel = void (*)(const Arithmetic& arithmetic, std::byte* target, const std::byte* source,
                               std::size_t elements);

// TargetKernels serve one dtype and operator. Conversions are null where both forms are the same.
struct TargetKernels {
  TreeKernel partial = nullptr;    // accumulators into an accumulator
  TreeKernel data = nullptr;       // elements into a finished one, in registers, k a power of two; or null
  ConvertKernel enter = nullptr;   // Data to Partial: widens, premultiplies
  ConvertKernel finish = nullptr;  // Partial to Data: divides, rounds
  int largest_k = 2;
  bool every_k = false;
};

inline constexpr std::size_t kReduceOps = 6;
using KernelTable = std::array<std::array<TargetKernels, kReduceOps>, kDataTypeCount>;

// An instruction set. It may be one that is not compiled in, or that this machine cannot run.
struct Target {
  std::int64_t id;
  const KernelTable* kernels;  // null where it is not compiled in
};
inline constexpr std::size_t kTargets = 11;
// Best first; the last is the baseline of this build.
extern const std::array<Target, kTargets> kTargetTable;

bool runs_here(const Target& target) noexcept;
const char* name_of(const Target& target) noexcept;

}  // namespace wreath
