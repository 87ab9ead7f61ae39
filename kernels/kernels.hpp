// The table of kernels per processor. Executors call them to move and reduce bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wreath/schedule.hpp"
#include "wreath/types.hpp"

namespace wreath {

// The forms of a combination's sources. One of them may be the rank's own source, in another form than the messages.
struct Operands {
  Form messages = Form::Data;  // of all sources but the own one
  // The own source's place among the sources, or -1 where all are messages.
  int own = -1;
  Form own_form = Form::Data;
};

// The arithmetic of one call, which is made once and used for all its tiles. It is plain data, and kernels are pure
// functions of it.
//
// combine(target) makes the canonical sum, product, ... of `k` sources of `elements` elements each. Canonical is the
// balanced tree that pairs neighbours first; k beyond the largest power of two folds into pairs (2i, 2i+1) first.
// Sources in Data form are untouched inputs, which are widened to the accumulator's type. For PremultipliedSum they are
// multiplied by the factor there; only the own one is ever Data then. A target in Data form is finished: an average is
// divided by `ranks` (integers truncate toward zero), then rounded to the dtype. A Partial target is neither divided
// nor rounded. k = 1 converts: it premultiplies, finishes or both. Where that changes nothing (see `moves`) it is a
// copy, bit by bit.
//
// The target may equal any source exactly if both have one form, or their forms are the same bytes. Other overlap is
// not allowed. Pointers may be misaligned, not null. k is 1 at least. Floats round to nearest even, subnormals are
// kept, and nothing is contracted. A NaN result is the dtype's one quiet NaN with the sign clear. Minimum and maximum
// propagate NaN, and order -0 below +0. Narrowing to float8 saturates finite values. Infinities stay where the dtype
// has them, else they become NaN. Integers wrap.
struct Arithmetic {
  using Combine = void (*)(const Arithmetic&, std::byte* target, Form target_form, const std::byte* const* sources,
                           int k, Operands operands, std::size_t elements);
  Combine combine = nullptr;
  DataType dtype = DataType::Float32;
  Reduction reduction{};
  int ranks = 1;

  // Returns whether converting one source from `from` to `to` is a plain copy of bytes.
  bool moves(Form from, Form to) const noexcept {
    const bool same_type = accumulator_of(dtype) == dtype;
    const bool premultiplies = reduction.op == ReduceOp::PremultipliedSum && from == Form::Data;
    const bool divides = reduction.op == ReduceOp::Avg && to == Form::Data;
    if (from == Form::Partial && to == Form::Partial) return true;
    return !premultiplies && !divides && (same_type || from == to);
  }
};

// Copies between memory that does not overlap.
using CopyKernel = void (*)(std::byte* target, const std::byte* source, std::size_t bytes);

struct CopyKernels {
  CopyKernel plain = nullptr;  // ordinary stores
  // Fills a slot that a peer read before. It writes whole lines without fetching the peer's copy.
  CopyKernel fill = nullptr;
  // Does the same, and reads pages side by side, which brings more lines from afar at once; null: never faster here.
  CopyKernel fill_pages = nullptr;
  // Makes non-temporal stores, past the caches.
  CopyKernel stream = nullptr;
  // Runs after the last of these stores, before another thread is told of what they wrote.
  void (*end_stream)() = nullptr;
};

// Returns the arithmetic of a call, with the kernel for the best instruction set of this machine.
Arithmetic arithmetic(DataType dtype, const Reduction& reduction, int ranks) noexcept;
const CopyKernels& copy_kernels() noexcept;
// Returns those for processors of this maker (cpu_vendor()). They run on all processors.
CopyKernels copy_kernels_of(std::string_view vendor) noexcept;

// An instruction set that is compiled in and that this machine can run: "AVX3", "AVX2", "SSE2", ...
struct CombineTarget {
  const char* name;
  Arithmetic::Combine combine;
};
// Writes the targets, best first, and returns their number. Tests compare each target with the scalar reference.
std::size_t combine_targets(CombineTarget* targets, std::size_t capacity) noexcept;

// Combines one element at a time, in plain C++. This is the meaning of the kernels above, and an Arithmetic::Combine
// itself.
void combine_reference(const Arithmetic& arithmetic, std::byte* target, Form target_form,
                       const std::byte* const* sources, int k, Operands operands, std::size_t elements) noexcept;

}  // namespace wreath
