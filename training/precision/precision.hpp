// Precision: in which formats a model computes, keeps its weights and sends what it sends.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "training/compute/convert.hpp"

namespace wreath::training {

// All but Float32: working weights are of 2 bytes, activations at layer boundaries and the factors of matrix products
// have values of that format, products and gradients add up in float32, and the optimizer steps float32 master weights
// (Micikevicius et al., "Mixed precision training", ICLR 2018).
// Fp8: as BFloat16, but the factors of linear layers' products are e4m3, and e5m2 where they are gradients, each tensor
// with a scale of its own (Micikevicius et al., "FP8 formats for deep learning", 2022); emulated: the values are those
// of the formats, the products those of float32.
enum class Precision : std::uint8_t { Float32, BFloat16, Float16, Fp8 };

// "float32", "bfloat16", "float16", "fp8".
std::string_view name(Precision precision) noexcept;
std::optional<Precision> parse_precision(std::string_view text) noexcept;
// The format of the weights, of activations, and of what travels between replicas; nullopt: float32.
std::optional<DataType> half_format(Precision precision) noexcept;

}  // namespace wreath::training
