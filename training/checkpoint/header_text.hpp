// Parts of the safetensors format that its writer and its parser share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "training/checkpoint/safetensors.hpp"

namespace wreath::training {

// For messages: in quotes, ASCII, its first 200 bytes.
std::string in_quotes(std::string_view text);
std::optional<TensorType> parse_tensor_type(std::string_view text) noexcept;
// Nullopt where a size is negative, the product overflows, or is no whole number of bytes.
std::optional<std::uint64_t> bytes_of(TensorType type, std::span<const std::int64_t> shape) noexcept;
// A name that two tensors have.
std::optional<std::string> repeated_name(const std::vector<StoredTensor>& tensors);
// Bytes before the first tensor's, by the first 8 of a file.
Result<std::uint64_t> header_bytes_of(std::string_view start, std::uint64_t file_bytes, const std::string& file);

}  // namespace wreath::training
