// Tests the table of dtypes and the functions that read it.
#include "wreath/types.hpp"

#include <gtest/gtest.h>

#include <string_view>
#include <type_traits>
#include <utility>

#include "wreath/narrow_floats.hpp"

namespace wreath {
namespace {

TEST(DataTypes, EachHasTheElementTypeOfItsRow) {
  ASSERT_EQ(all_dtypes().size(), kDataTypeCount);
  for (const DataType dtype : all_dtypes()) {
    const DataType reached = for_dtype(dtype, [&]<typename T>(T) {
      EXPECT_EQ(size_of(dtype), sizeof(T)) << name(dtype);
      EXPECT_EQ(is_floating(dtype), !std::is_integral_v<T>) << name(dtype);
      EXPECT_EQ(accumulator_of(dtype), dtype_of<Accumulator<T>>) << name(dtype);
      return dtype_of<T>;
    });
    EXPECT_EQ(reached, dtype) << name(dtype);
  }
  EXPECT_EQ(accumulator_of(DataType::BFloat16), DataType::Float32);
  EXPECT_EQ(accumulator_of(DataType::Float64), DataType::Float64);
}

TEST(DataTypes, AreReadByEachOfTheirNames) {
  for (const DataType dtype : all_dtypes()) EXPECT_EQ(parse_dtype(name(dtype)), dtype);
  for (const auto& [text, dtype] : {std::pair<std::string_view, DataType>{"char", DataType::Int8},
                                    {"ulong", DataType::Uint64},
                                    {"half", DataType::Float16},
                                    {"double", DataType::Float64},
                                    {"bf16", DataType::BFloat16},
                                    {"f8e4m3", DataType::Float8E4M3}}) {
    EXPECT_EQ(parse_dtype(text), dtype) << text;
  }
  EXPECT_EQ(parse_dtype("float16 "), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
}

}  // namespace
}  // namespace wreath
