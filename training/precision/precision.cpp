// This file holds the table of precisions.
#include "training/precision/precision.hpp"

#include <array>

namespace wreath::training {

namespace {

struct Row {
  Precision precision;
  std::string_view name;
  std::optional<DataType> half;
};

constexpr std::array<Row, 4> kRows = {{
    {Precision::Float32, "float32", std::nullopt},
    {Precision::BFloat16, "bfloat16", DataType::BFloat16},
    {Precision::Float16, "float16", DataType::Float16},
    {Precision::Fp8, "fp8", DataType::BFloat16},
}};

const Row& row_of(Precision precision) noexcept { return kRows[static_cast<std::size_t>(precision)]; }

}  // namespace

std::string_view name(Precision precision) noexcept { return row_of(precision).name; }

std::optional<Precision> parse_precision(std::string_view text) noexcept {
  for (const Row& row : kRows) {
    if (row.name == text) return row.precision;
  }
  return std::nullopt;
}

std::optional<DataType> half_format(Precision precision) noexcept { return row_of(precision).half; }

}  // namespace wreath::training
