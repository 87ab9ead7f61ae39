// The kernels of one instruction set, and the list of sets. reduce.cpp makes the kernels, and combine.cpp combines
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kernels.hpp"

namespace wreath {

// Combines k elements of one type into one, in the canonical tree. k is a power of two up to `largest_k`. Where
// `every_k` holds, k is any number up to `largest_k`.
using TreeKernel = void (*)(const Arithmetic& arithmetic, std::byte* target, const std::byte* const* sources, int k,
                            std::size_t elements);
// Turns one form into the other. The target may equal the source where both forms have one size.
using ConvertKernel = void (*)(const Arithmetic& arithmetic, std::byte* target, const std::byte* source,
                               std::size_t elements);

// TargetKernels serve one dtype and operator. Conversions are null where both forms are the same.
struct TargetKernels {
  TreeKernel partial = nullptr;  // accumulators into an accumulator
  // Combines elements into a finished element, in registers, for k a power of two. It may be null.
  TreeKernel data = nullptr;
  ConvertKernel enter = nullptr;   // Data to Partial: widens, premultiplies
  ConvertKernel finish = nullptr;  // Partial to Data: divides, rounds
  int largest_k = 2;
  bool every_k = false;
};

inline constexpr std::size_t kReduceOps = 6;
using KernelTable = std::array<std::array<TargetKernels, kReduceOps>, kDataTypeCount>;

// An instruction set. Perhaps it is not compiled in, or this machine cannot run it.
struct Target {
  std::int64_t id;
  const KernelTable* kernels;  // null where it is not compiled in
};
inline constexpr std::size_t kTargets = 11;
// The table has the best set first. The last one is the baseline of this build.
extern const std::array<Target, kTargets> kTargetTable;

bool runs_here(const Target& target) noexcept;
const char* name_of(const Target& target) noexcept;

}  // namespace wreath
