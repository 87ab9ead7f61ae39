// Precision names the formats in which a model computes, keeps its weights and sends data.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "training/compute/convert.hpp"

namespace wreath::training {

// The precisions. With all but Float32, working weights have 2 bytes. Activations at layer boundaries and the factors
// of matrix products then have values of that format. Products and gradients add up in float32, and the optimizer steps
// float32 master weights (Micikevicius et al., "Mixed precision training", ICLR 2018).
//
// Fp8 is like BFloat16, but the factors of linear layers' products are e4m3, or e5m2 where they are gradients. Each
// tensor has a scale of its own (Micikevicius et al., "FP8 formats for deep learning", 2022). It is emulated: the
// values are those of the formats, and the products are in float32.
enum class Precision : std::uint8_t { Float32, BFloat16, Float16, Fp8 };

// Returns "float32", "bfloat16", "float16" or "fp8".
std::string_view name(Precision precision) noexcept;
std::optional<Precision> parse_precision(std::string_view text) noexcept;
// Returns the format of the weights, of activations, and of data between replicas; nullopt means float32.
std::optional<DataType> half_format(Precision precision) noexcept;

}  // namespace wreath::training
