// Implements operators, and reads their factors.
#include "bindings/nccl/operators.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "bindings/nccl/errors.hpp"
#include "bindings/nccl/member.hpp"

namespace wreath::nccl {
namespace {

constexpr std::array kTypes{DataType::Int8,    DataType::Uint8,    DataType::Int32,      DataType::Uint32,
                            DataType::Int64,   DataType::Uint64,   DataType::Float16,    DataType::Float32,
                            DataType::Float64, DataType::BFloat16, DataType::Float8E4M3, DataType::Float8E5M2};
static_assert(kTypes.size() == ncclNumTypes);
constexpr std::array kOps{ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min, ReduceOp::Avg};
static_assert(kOps.size() == ncclNumOps);

// Describes a narrow floating format: sign, `exponent_bits`, `mantissa_bits`.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  // Says that there are infinities; else only the largest pattern is no number.
  bool infinities;
};

double decode(std::uint32_t bits, const Format& format) {
  const std::uint32_t mantissa = bits & ((1U << format.mantissa_bits) - 1);
  const auto most = (1U << format.exponent_bits) - 1;
  const std::uint32_t exponent = bits >> format.mantissa_bits & most;
  const double sign = (bits >> (format.mantissa_bits + format.exponent_bits) & 1U) != 0 ? -1 : 1;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double fraction = std::ldexp(static_cast<double>(mantissa), -format.mantissa_bits);
  if (exponent == most && format.infinities)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (exponent == most && mantissa == (1U << format.mantissa_bits) - 1) return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
}

template <typename T>
T read(const void* scalar) {
  T value;
  std::memcpy(&value, scalar, sizeof value);
  return value;
}

Reduction premultiplied(double factor) { return Reduction::premultiplied_sum(factor); }
Reduction premultiplied(std::int64_t factor) { return Reduction::premultiplied_sum(factor); }

Reduction factor_at(const void* scalar, DataType dtype) {
  switch (dtype) {
    case DataType::Int8: return premultiplied(std::int64_t{read<std::int8_t>(scalar)});
    case DataType::Uint8: return premultiplied(std::int64_t{read<std::uint8_t>(scalar)});
    case DataType::Int32: return premultiplied(std::int64_t{read<std::int32_t>(scalar)});
    case DataType::Uint32: return premultiplied(std::int64_t{read<std::uint32_t>(scalar)});
    case DataType::Int64:
    case DataType::Uint64: return premultiplied(read<std::int64_t>(scalar));  // products wrap
    case DataType::Float16: return premultiplied(decode(read<std::uint16_t>(scalar), {5, 10, true}));
    case DataType::BFloat16: return premultiplied(decode(read<std::uint16_t>(scalar), {8, 7, true}));
    case DataType::Float8E4M3: return premultiplied(decode(read<std::uint8_t>(scalar), {4, 3, false}));
    case DataType::Float8E5M2: return premultiplied(decode(read<std::uint8_t>(scalar), {5, 2, true}));
    case DataType::Float32: return premultiplied(double{read<float>(scalar)});
    case DataType::Float64: break;
  }
  return premultiplied(read<double>(scalar));
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
