// Translates torch's dtypes and operators to Wreath's, and checks which tensors this backend takes.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <string_view>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "wreath/types.hpp"

namespace wreath_torch {

// Describes a tensor's elements on their way through Wreath: `per_element` of `dtype` for each.
struct Elements {
  wreath::DataType dtype;
  std::size_t per_element = 1;
};

// Returns how elements are moved that are not looked at: any dtype, as bytes where Wreath has no such one.
Elements moved(c10::ScalarType type);

// Describes elements that are combined, by what, and as which dtype of torch. It is another dtype than the tensor's
// where that has the same results (int16 as int32).
struct Arithmetic {
  Elements elements;
  wreath::Reduction reduction;
  c10::ScalarType computed_in;
};

// Returns the arithmetic of a call. Throws, and names `call`, where this operator or its combination with the dtype
// does not exist here.
Arithmetic arithmetic_of(std::string_view call, c10::ScalarType type, const c10d::ReduceOp& op);

// Throws unless it is a dense tensor in the CPU's memory.
void check_tensor(std::string_view call, const at::Tensor& tensor);

// Returns the one tensor of a call. Throws unless there is exactly one, which is dense and in the CPU's memory.
at::Tensor& only(std::string_view call, std::vector<at::Tensor>& tensors);

// Returns whether the tensor's elements lie one after the other as they are.
bool is_plain(const at::Tensor& tensor);

}  // namespace wreath_torch
