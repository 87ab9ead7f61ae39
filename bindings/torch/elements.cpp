// Holds the tables of dtypes and operators.
#include "bindings/torch/elements.hpp"

#include <c10/util/Exception.h>

#include <optional>

#include "bindings/torch/version.hpp"

namespace wreath_torch {
namespace {

using wreath::DataType;
using wreath::ReduceOp;
using wreath::Reduction;

struct DtypeRow {
  c10::ScalarType type;
  Elements elements;
  c10::ScalarType computed_in;
};

constexpr DtypeRow kDtypes[] = {
    {c10::ScalarType::Char, {DataType::Int8}, c10::ScalarType::Char},
    {c10::ScalarType::Byte, {DataType::Uint8}, c10::ScalarType::Byte},
    {c10::ScalarType::Int, {DataType::Int32}, c10::ScalarType::Int},
    {c10::ScalarType::UInt32, {DataType::Uint32}, c10::ScalarType::UInt32},
    {c10::ScalarType::Long, {DataType::Int64}, c10::ScalarType::Long},
    {c10::ScalarType::UInt64, {DataType::Uint64}, c10::ScalarType::UInt64},
    {c10::ScalarType::Half, {DataType::Float16}, c10::ScalarType::Half},
    {c10::ScalarType::Float, {DataType::Float32}, c10::ScalarType::Float},
    {c10::ScalarType::Double, {DataType::Float64}, c10::ScalarType::Double},
    {c10::ScalarType::BFloat16, {DataType::BFloat16}, c10::ScalarType::BFloat16},
    {c10::ScalarType::Float8_e4m3fn, {DataType::Float8E4M3}, c10::ScalarType::Float8_e4m3fn},
    {c10::ScalarType::Float8_e5m2, {DataType::Float8E5M2}, c10::ScalarType::Float8_e5m2},
    {c10::ScalarType::Bool, {DataType::Uint8}, c10::ScalarType::Bool},
    {c10::ScalarType::Short, {DataType::Int32}, c10::ScalarType::Int},
    {c10::ScalarType::UInt16, {DataType::Int32}, c10::ScalarType::Int},
    {c10::ScalarType::ComplexHalf, {DataType::Float16, 2}, c10::ScalarType::ComplexHalf},
    {c10::ScalarType::ComplexFloat, {DataType::Float32, 2}, c10::ScalarType::ComplexFloat},
    {c10::ScalarType::ComplexDouble, {DataType::Float64, 2}, c10::ScalarType::ComplexDouble},
};

// Returns whether each of the library's dtypes has a row for its own elements.
constexpr bool is_complete() {
  for (std::size_t dtype = 0; dtype < wreath::kDataTypeCount; ++dtype) {
    bool found = false;
    for (const DtypeRow& row : kDtypes) {
      const bool whole = row.elements.per_element == 1 && row.type == row.computed_in;
      found = found || (whole && static_cast<std::size_t>(row.elements.dtype) == dtype);
    }
    if (!found) return false;
  }
  return true;
}
static_assert(is_complete());

const DtypeRow* row_of(c10::ScalarType type) {
  for (const DtypeRow& row : kDtypes) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

constexpr std::string_view kOpNames[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};

std::string_view name_of(c10d::ReduceOp::RedOpType op) { return op < std::size(kOpNames) ? kOpNames[op] : "unknown"; }

Reduction premultiplied(const c10d::ReduceOp& op, c10::ScalarType type) {
  const auto* supplement = static_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(supplement != nullptr, "wreath: PREMUL_SUM without a factor");
  if (!supplement->tensor_factor.defined()) return Reduction::premultiplied_sum(supplement->double_factor);
  if (c10::isIntegralType(type, false)) {
    return Reduction::premultiplied_sum(supplement->tensor_factor.item<std::int64_t>());
  }
  return Reduction::premultiplied_sum(supplement->tensor_factor.item<double>());
}

// Returns the reduction of numbers.
std::optional<Reduction> reduction_of(const c10d::ReduceOp& op, c10::ScalarType type) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM: return ReduceOp::Sum;
    case c10d::ReduceOp::AVG: return ReduceOp::Avg;
    case c10d::ReduceOp::PRODUCT: return ReduceOp::Prod;
    case c10d::ReduceOp::MIN: return ReduceOp::Min;
    case c10d::ReduceOp::MAX: return ReduceOp::Max;
    case c10d::ReduceOp::PREMUL_SUM: return premultiplied(op, type);
    default: return std::nullopt;
  }
}

// Returns the reduction of truth values, which are held as 0 and 1.
std::optional<Reduction> reduction_of_bool(const c10d::ReduceOp& op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::MAX:
    case c10d::ReduceOp::BOR: return ReduceOp::Max;
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::BAND: return ReduceOp::Min;
    default: return std::nullopt;
  }
}

// Returns the reduction of pairs of reals, for operators that are linear.
std::optional<Reduction> reduction_of_complex(const c10d::ReduceOp& op, c10::ScalarType type) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::AVG:
    case c10d::ReduceOp::PREMUL_SUM: return reduction_of(op, type);
    default: return std::nullopt;
  }
}

std::optional<Reduction> any_reduction_of(const c10d::ReduceOp& op, c10::ScalarType type) {
  if (type == c10::ScalarType::Bool) return reduction_of_bool(op);
  if (c10::isComplexType(type)) return reduction_of_complex(op, type);
  return reduction_of(op, type);
}

}  // namespace

Elements moved(c10::ScalarType type) {
  const DtypeRow* row = row_of(type);
  if (row != nullptr && row->computed_in == type) return row->elements;
  return {DataType::Uint8, c10::elementSize(type)};
}

Arithmetic arithmetic_of(std::string_view call, c10::ScalarType type, const c10d::ReduceOp& op) {
  const DtypeRow* row = row_of(type);
  TORCH_CHECK_NOT_IMPLEMENTED(row != nullptr, "wreath: ", call, ": there is no arithmetic for tensors of ", type);
  const std::optional<Reduction> reduction = any_reduction_of(op, type);
  TORCH_CHECK_NOT_IMPLEMENTED(reduction.has_value(), "wreath: ", call, ": there is no ", name_of(op),
                              " for tensors of ", type,
                              " here: sums, averages and pre-multiplied sums of all but bool, ",
                              "products, minima and maxima of all but complex numbers, and, or of bool");
  return {row->elements, *reduction, row->computed_in};
}

void check_tensor(std::string_view call, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.defined(), "wreath: ", call, ": a tensor is undefined");
  TORCH_CHECK_VALUE(
      tensor.device().is_cpu(), "wreath: ", call, ": the tensor is on ", tensor.device(),
      ", and this backend moves CPU tensors; init_process_group(\"cpu:wreath,cuda:nccl\") leaves others to ",
      "another one");
  TORCH_CHECK_VALUE(tensor.layout() == c10::kStrided, "wreath: ", call, ": the tensor's layout is ", tensor.layout(),
                    "; dense tensors only");
}

at::Tensor& only(std::string_view call, std::vector<at::Tensor>& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "wreath: ", call, ": one tensor a call, not ", tensors.size());
  check_tensor(call, tensors.front());
  return tensors.front();
}

bool is_plain(const at::Tensor& tensor) { return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg(); }

}  // namespace wreath_torch
