// Describes what bodies of collectives ask of Wreath.
#pragma once

#include "bindings/torch/elements.hpp"
#include "bindings/torch/joined.hpp"
#include "wreath/call.hpp"

namespace wreath_torch {

// Makes a call on `count` elements (Wreath's) of the whole vector, or of one block where blocks move.
inline wreath::Call call_of(wreath::Collective collective, const Joined& input, const Joined& output,
                            std::size_t count) {
  wreath::Call call;
  call.collective = collective;
  call.input = input.data();
  call.output = output.data();
  call.count = count;
  return call;
}

inline wreath::Call with(wreath::Call call, const Elements& elements) {
  call.dtype = elements.dtype;
  return call;
}

inline wreath::Call with(wreath::Call call, const Arithmetic& arithmetic) {
  call.dtype = arithmetic.elements.dtype;
  call.reduction = arithmetic.reduction;
  return call;
}

}  // namespace wreath_torch
