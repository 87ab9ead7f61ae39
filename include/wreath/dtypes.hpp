// The dtypes have one table here, with the formats of the narrow floating ones and all that follows from both. A new
// dtype is written here and nowhere else in C++ (docs/adding-a-dtype.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "wreath/host_device.hpp"

namespace wreath {

// The enum has all dtypes. A new one goes to the end, since programs in C were compiled with these numbers. Float8E4M3
// is OCP's e4m3fn: it has no infinities, its NaN is 0x7f, and its largest finite value is 448.
enum class DataType : std::uint8_t {
  Int8,
  Uint8,
  Int32,
  Uint32,
  Int64,
  Uint64,
  Float16,
  Float32,
  Float64,
  BFloat16,
  Float8E4M3,
  Float8E5M2,
};

// These structs hold elements of the narrow floating dtypes as bits. They are storage for programs without a type of
// their own for these dtypes.
struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
struct Float8E4M3 {
  std::uint8_t bits;
};
struct Float8E5M2 {
  std::uint8_t bits;
};

// ---- the table ----

// A DataTypeRow describes one dtype. T is the type of an element.
template <typename T>
struct DataTypeRow {
  using Element = T;
  DataType dtype;
  std::string_view name;
  // The name that nccl-tests prints.
  std::string_view nccl_tests;
  // One more name that parse_dtype() reads.
  std::string_view alias;
};

// The table has its rows in the order of DataType.
inline constexpr std::tuple kDataTypes{
    DataTypeRow<std::int8_t>{DataType::Int8, "int8", "int8", "char"},
    DataTypeRow<std::uint8_t>{DataType::Uint8, "uint8", "uint8", "byte"},
    DataTypeRow<std::int32_t>{DataType::Int32, "int32", "int32", "int"},
    DataTypeRow<std::uint32_t>{DataType::Uint32, "uint32", "uint32", "uint"},
    DataTypeRow<std::int64_t>{DataType::Int64, "int64", "int64", "long"},
    DataTypeRow<std::uint64_t>{DataType::Uint64, "uint64", "uint64", "ulong"},
    DataTypeRow<Float16>{DataType::Float16, "float16", "half", "half"},
    DataTypeRow<float>{DataType::Float32, "float32", "float", "float"},
    DataTypeRow<double>{DataType::Float64, "float64", "double", "double"},
    DataTypeRow<BFloat16>{DataType::BFloat16, "bfloat16", "bfloat16", "bf16"},
    DataTypeRow<Float8E4M3>{DataType::Float8E4M3, "float8_e4m3", "f8e4m3", "f8e4m3"},
    DataTypeRow<Float8E5M2>{DataType::Float8E5M2, "float8_e5m2", "f8e5m2", "f8e5m2"},
};
inline constexpr std::size_t kDataTypeCount = std::tuple_size_v<decltype(kDataTypes)>;

// ---- the trait: floating formats of less than 32 bits ----

// A NarrowFormat has a sign, an exponent and a mantissa. Only the narrow floating dtypes have one.
template <typename T>
struct NarrowFormat {
  static constexpr bool kExists = false;
};

// The constants follow from the widths where the format is as IEEE 754 defines it: the largest exponent means infinity
// or NaN. The words of a conversion to and from float are the same for scalars and vectors.
template <typename Word, int mantissa_bits>
struct InterchangeFormat {
  static constexpr bool kExists = true;
  using Bits = Word;
  static constexpr int kMantissaBits = mantissa_bits;
  static constexpr int kExponentBits = 8 * static_cast<int>(sizeof(Word)) - 1 - mantissa_bits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr std::uint32_t kFromInfinity = ((1u << kExponentBits) - 1) << mantissa_bits;
  // The least magnitude that is no finite number.
  static constexpr std::uint32_t kFirstNonFinite = kFromInfinity;
  static constexpr std::uint32_t kNan = kFromInfinity | 1u << (mantissa_bits - 1);

  static constexpr int kShift = 23 - mantissa_bits;
  static constexpr int kSignShift = 32 - 8 * static_cast<int>(sizeof(Word));
  static constexpr std::uint32_t kMagnitude = (1u << (31 - kSignShift)) - 1;
  // This constant, added to a shifted exponent, gives a float's exponent.
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  static constexpr bool kSameExponent = kBias == 127;
  static constexpr std::uint32_t kFirstNormal = 1u << mantissa_bits;
  static constexpr std::uint32_t kLeastNormal = static_cast<std::uint32_t>(128 - kBias) << 23;
  // This is a float whose last bit weighs as much as the format's least subnormal. Adding it rounds to a multiple of
  // that.
  static constexpr std::uint32_t kSubnormalMagic = static_cast<std::uint32_t>(128 - kBias + kShift) << 23;
};

// Finite floats above kLargestFloat become the same narrow number as kLargestFloat itself.
template <>
struct NarrowFormat<Float16> : InterchangeFormat<std::uint16_t, 10> {
  // The value is 2^16, which has the place of infinity.
  static constexpr std::uint32_t kLargestFloat = 0x47800000;
};
template <>
struct NarrowFormat<BFloat16> : InterchangeFormat<std::uint16_t, 7> {
  // The value is the largest finite float.
  static constexpr std::uint32_t kLargestFloat = 0x7f7fffff;
};
// The format has no infinity, and one NaN.
template <>
struct NarrowFormat<Float8E4M3> : InterchangeFormat<std::uint8_t, 3> {
  static constexpr std::uint32_t kFirstNonFinite = 0x7f;
  static constexpr std::uint32_t kFromInfinity = 0x7f;
  static constexpr std::uint32_t kNan = 0x7f;
  static constexpr std::uint32_t kLargestFloat = 0x43e00000;  // 448
};
template <>
struct NarrowFormat<Float8E5M2> : InterchangeFormat<std::uint8_t, 2> {
  static constexpr std::uint32_t kLargestFloat = 0x47600000;  // 57344
};

// Sums are formed in this type. It is float for narrower floats, and T itself for every other type.
template <typename T>
using Accumulator = std::conditional_t<NarrowFormat<T>::kExists, float, T>;

// ---- what follows from the table ----

namespace detail {

template <std::size_t kIndex>
using ElementAt = typename std::tuple_element_t<kIndex, std::remove_const_t<decltype(kDataTypes)>>::Element;

template <typename T>
inline constexpr bool kIsElement = []<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
  return (std::is_same_v<T, ElementAt<kIndex>> || ...);
}
(std::make_index_sequence<kDataTypeCount>());

constexpr bool in_order() {
  std::size_t index = 0;
  return std::apply([&](const auto&... row) { return ((static_cast<std::size_t>(row.dtype) == index++) && ...); },
                    kDataTypes);
}
static_assert(in_order(), "the rows of kDataTypes are in the order of DataType");

}  // namespace detail

// Names the dtype of a C++ element type, for example dtype_of<float>.
template <typename T>
inline constexpr DataType dtype_of = [] {
  static_assert(detail::kIsElement<T>, "no such dtype");
  return std::get<DataTypeRow<T>>(kDataTypes).dtype;
}();

// Calls body(T{}), where T is the type of the dtype's elements, and returns its result.
template <std::size_t kFirst = 0, std::size_t kCount = kDataTypeCount, typename Body>
WREATH_HOST_DEVICE constexpr decltype(auto) for_dtype(DataType dtype, const Body& body) {
  if constexpr (kCount == 1) {
    return body(detail::ElementAt<kFirst>{});
  } else {
    if (static_cast<std::size_t>(dtype) < kFirst + kCount / 2) return for_dtype<kFirst, kCount / 2>(dtype, body);
    return for_dtype<kFirst + kCount / 2, kCount - kCount / 2>(dtype, body);
  }
}

// Returns Array{body(row) for every row}: another table, in the order of DataType.
template <typename Array, typename Body>
constexpr Array table_by_dtype(const Body& body) {
  return std::apply([&](const auto&... row) { return Array{body(row)...}; }, kDataTypes);
}

}  // namespace wreath
