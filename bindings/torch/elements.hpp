// What torch's dtypes and operators are in Wreath's words, and which tensors this backend takes.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <string_view>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "wreath/types.hpp"

namespace wreath_torch {

// A tensor's elements on their way through Wreath: `per_element` of `dtype` for each.
struct Elements {
  wreath::DataType dtype;
  std::size_t per_element = 1;
};

// Elements that are moved and not looked at: any dtype, as bytes where Wreath has no such one.
Elements moved(c10::ScalarType type);

// Elements that are combined, by what, and as which dtype of torch: another one than the tensor's where that has the
// same results (int16 as int32).
struct Arithmetic {
  Elements elements;
  wreath::Reduction reduction;
  c10::ScalarType computed_in;
};

// Throws where this operator or its combination with the dtype does not exist here; `call` is named.
Arithmetic arithmetic_of(std::string_view call, c10::ScalarType type, const c10d::ReduceOp& op);

// Throws unless it is a dense tensor in the CPU's memory.
void check_tensor(std::string_view call, const at::Tensor& tensor);

// Throws unless there is exactly one, which is such a tensor.
at::Tensor& only(std::string_view call, std::vector<at::Tensor>& tensors);

// Whether its elements lie one after the other as they are.
bool is_plain(const at::Tensor& tensor);

}  // namespace wreath_torch
