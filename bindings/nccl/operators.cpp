// Implements operators, and reads their factors.
#include "bindings/nccl/operators.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "bindings/nccl/errors.hpp"
#include "bindings/nccl/member.hpp"
#include "wreath/device.hpp"
#include "wreath/narrow_floats.hpp"

namespace wreath::nccl {
namespace {

constexpr std::array kTypes{DataType::Int8,    DataType::Uint8,    DataType::Int32,      DataType::Uint32,
                            DataType::Int64,   DataType::Uint64,   DataType::Float16,    DataType::Float32,
                            DataType::Float64, DataType::BFloat16, DataType::Float8E4M3, DataType::Float8E5M2};
static_assert(kTypes.size() == ncclNumTypes);
constexpr std::array kOps{ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min, ReduceOp::Avg};
static_assert(kOps.size() == ncclNumOps);

Reduction factor_at(const void* scalar, DataType dtype) {
  return for_dtype(dtype, [&]<typename T>(T factor) {
    std::memcpy(&factor, scalar, sizeof factor);
    if constexpr (std::is_integral_v<T>) {
      return Reduction::premultiplied_sum(static_cast<std::int64_t>(factor));  // of 64 bits: products wrap
    } else {
      return Reduction::premultiplied_sum(static_cast<double>(widen(factor)));
    }
  });
}

}  // namespace

std::optional<DataType> dtype_of(ncclDataType_t datatype) noexcept {
  const auto index = static_cast<std::size_t>(datatype);
  return index < kTypes.size() ? std::optional(kTypes[index]) : std::nullopt;
}

ncclRedOp_t Operators::create(const void* scalar, DataType dtype, ncclScalarResidence_t residence) {
  Made made{dtype, residence == ncclScalarDevice ? scalar : nullptr, {}};
  if (made.scalar == nullptr) made.reduction = factor_at(scalar, dtype);
  const std::lock_guard lock(mutex_);
  const auto free = std::find(made_.begin(), made_.end(), std::nullopt);
  const auto index = free - made_.begin();
  if (free == made_.end()) {
    made_.emplace_back(made);
  } else {
    *free = made;
  }
  return static_cast<ncclRedOp_t>(ncclNumOps + index);
}

bool Operators::destroy(ncclRedOp_t op) {
  const auto index = static_cast<std::size_t>(op) - ncclNumOps;
  const std::lock_guard lock(mutex_);
  if (op < ncclNumOps || index >= made_.size() || !made_[index]) return false;
  made_[index].reset();
  return true;
}

Result<Reduction> Operators::reduction(ncclRedOp_t op, DataType dtype) const {
  const auto value = static_cast<std::size_t>(op);
  if (value < kOps.size()) return Reduction(kOps[value]);
  const std::lock_guard lock(mutex_);
  const std::size_t index = value - ncclNumOps;
  if (index >= made_.size() || !made_[index]) {
    return Error{ErrorCode::InvalidArgument, "op = " + std::to_string(op) + ": there is no such operator", -1};
  }
  const Made& made = *made_[index];
  if (made.dtype != dtype) {
    return Error{ErrorCode::InvalidArgument,
                 "op = " + std::to_string(op) + " was made for " + std::string(name(made.dtype)) + ", not for " +
                     std::string(name(dtype)),
                 -1};
  }
  return made.scalar == nullptr ? made.reduction : factor_at(made.scalar, dtype);
}

}  // namespace wreath::nccl

using namespace wreath::nccl;  // NOLINT(google-build-using-namespace)

extern "C" {

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
  constexpr const char* kName = "ncclRedOpCreatePreMulSum";
  return with_member(kName, comm, [&](const std::shared_ptr<Member>& member) {
    const auto dtype = wreath::nccl::dtype_of(datatype);
    if (op == nullptr) return bad_argument(kName, "op = null");
    if (scalar == nullptr) return bad_argument(kName, "scalar = null");
    if (!dtype) return bad_argument(kName, "datatype = " + std::to_string(datatype));
    if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
      return bad_argument(kName, "residence = " + std::to_string(residence));
    if (residence == ncclScalarDevice && wreath::device_of_memory(scalar) != nullptr)
      return bad_argument(kName, "scalar is in a GPU's memory: pass it in the host's");
    *op = member->operators().create(scalar, *dtype, residence);
    return ncclSuccess;
  });
}

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  constexpr const char* kName = "ncclRedOpDestroy";
  return with_member(kName, comm, [&](const std::shared_ptr<Member>& member) {
    if (op < ncclNumOps) return bad_argument(kName, "op = " + std::to_string(op) + " is not the program's to destroy");
    if (!member->operators().destroy(op))
      return bad_argument(kName, "op = " + std::to_string(op) + ": this communicator has no such operator");
    return ncclSuccess;
  });
}
}

WREATH_NCCL_EXPORT(RedOpCreatePreMulSum);
WREATH_NCCL_EXPORT(RedOpDestroy);
