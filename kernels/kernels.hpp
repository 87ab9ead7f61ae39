// The table of kernels per processor: what executors call to move and reduce bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wreath/schedule.hpp"
#include "wreath/types.hpp"

namespace wreath {

// The forms of what a combination takes: one of the sources may be the rank's own, in another form than the messages.
struct Operands {
  Form messages = Form::Data;  // of all sources but the own one
  int own = -1;                // its place among the sources; -1: all are messages
  Form own_form = Form::Data;
};

// The arithmetic of one call: made once, used for all its tiles. Plain data; kernels are pure functions of it.
//
// combine(target) = canonical sum, product, ... of `k` sources of `elements` elements each: the balanced tree that
// pairs neighbours first; k beyond the largest power of two folds into pairs (2i, 2i+1) first. Sources in Data form are
// untouched inputs: they are widened to the accumulator's type, and for PremultipliedSum multiplied by
// the factor there (only the own one is ever Data then). A target in Data form is finished: an average divided by
// `ranks` (integers truncate toward zero), then rounded to the dtype. A Partial target is neither. k = 1
// converts: premultiplies, finishes or both. Where that changes nothing (see `moves`) it is a copy, bit by bit.
//
// target may equal any source exactly if they are of one form or their forms are the same bytes; other overlap
// is not allowed. Pointers may be misaligned, not null. k >= 1.
// Floats round to nearest even, subnormals are kept, nothing is contracted; a NaN result is the dtype's one quiet NaN
// with the sign clear; min and max propagate NaN and order -0 below +0. Narrowing to float8 saturates finite values
// (infinities stay where the dtype has them, else NaN). Integers wrap.
struct Arithmetic {
  using Combine = void (*)(const Arithmetic&, std::byte* target, Form target_form, const std::byte* const* sources,
                           int k, Operands operands, std::size_t elements);
  Combine combine = nullptr;
  DataType dtype = DataType::Float32;
  Reduction reduction{};
  int ranks = 1;

  // Whether converting one source from `from` to `to` is a plain copy of bytes.
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
  CopyKernel plain = nullptr;      // ordinary stores
  CopyKernel fill = nullptr;       // into a slot that a peer read before: whole lines without fetching its copy
  CopyKernel stream = nullptr;     // non-temporal stores, past the caches
  void (*end_stream)() = nullptr;  // after the last of them, before another thread is told of what they wrote
};

// The arithmetic of a call, with the kernel for the best instruction set of this machine.
Arithmetic arithmetic(DataType dtype, const Reduction& reduction, int ranks) noexcept;
const CopyKernels& copy_kernels() noexcept;

// Every instruction set compiled in that this machine can run, best first ("AVX3", "AVX2", "SSE2", ...):
// tests hold each to the scalar reference.
struct CombineTarget {
  const char* name;
  Arithmetic::Combine combine;
};
std::size_t combine_targets(CombineTarget* targets, std::size_t capacity) noexcept;

// One element at a time, in plain C++: the meaning of the kernels above. An Arithmetic::Combine itself.
void combine_reference(const Arithmetic& arithmetic, std::byte* target, Form target_form,
                       const std::byte* const* sources, int k, Operands operands, std::size_t elements) noexcept;

}  // namespace wreath
