// Operators that a program has made for a communicator: pre-multiplied sums.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bindings/nccl/nccl.h"
#include "wreath/result.hpp"
#include "wreath/types.hpp"

namespace wreath::nccl {

// nullopt: there is no such type.
std::optional<DataType> dtype_of(ncclDataType_t datatype) noexcept;

// Any thread.
class Operators {
 public:
  // `scalar`: of `dtype`; read now, or (residence ncclScalarDevice) by each call.
  ncclRedOp_t create(const void* scalar, DataType dtype, ncclScalarResidence_t residence);
  // False: there is no such operator.
  bool destroy(ncclRedOp_t op);
  // What a call with `op` on `dtype` does. InvalidArgument where there is no such operator, or it is of another type.
  Result<Reduction> reduction(ncclRedOp_t op, DataType dtype) const;

 private:
  struct Made {
    DataType dtype;
    const void* scalar;  // nullptr: `reduction` holds its value
    Reduction reduction;
  };

  mutable std::mutex mutex_;
  std::vector<std::optional<Made>> made_;  // [op - ncclNumOps]; nullopt: destroyed
};

}  // namespace wreath::nccl
