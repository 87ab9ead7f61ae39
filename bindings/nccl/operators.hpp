// Holds operators that a program has made for a communicator: pre-multiplied sums.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bindings/nccl/nccl.h"
#include "wreath/result.hpp"
#include "wreath/types.hpp"

namespace wreath::nccl {

// Returns nullopt where there is no such type.
std::optional<DataType> dtype_of(ncclDataType_t datatype) noexcept;

// Holds the operators of one communicator. Any thread may call it.
class Operators {
 public:
  // Makes an operator. `scalar` is of `dtype`; it is read now, or (residence ncclScalarDevice) by each call.
  ncclRedOp_t create(const void* scalar, DataType dtype, ncclScalarResidence_t residence);
  // Returns false where there is no such operator.
  bool destroy(ncclRedOp_t op);
  // Returns what a call with `op` on `dtype` does. Fails with InvalidArgument where there is no such operator, or it is
  // of another type.
  Result<Reduction> reduction(ncclRedOp_t op, DataType dtype) const;

 private:
  struct Made {
    DataType dtype;
    // Is null where `reduction` holds the factor.
    const void* scalar;
    Reduction reduction;
  };

  mutable std::mutex mutex_;
  // Holds operators by op - ncclNumOps; nullopt where one is destroyed.
  std::vector<std::optional<Made>> made_;
};

}  // namespace wreath::nccl
