// This file declares parts of the safetensors format that its writer and its parser share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "training/checkpoint/safetensors.hpp"

namespace wreath::training {

// Returns the text for messages: in quotes, in ASCII, its first 200 bytes.
std::string in_quotes(std::string_view text);
std::optional<TensorType> parse_tensor_type(std::string_view text) noexcept;
// Returns the bytes of a tensor. Returns nullopt where a size is negative, the product overflows, or the bits fill no
// whole bytes.
std::optional<std::uint64_t> bytes_of(TensorType type, std::span<const std::int64_t> shape) noexcept;
// Returns a name that two tensors have, if there is one.
std::optional<std::string> repeated_name(const std::vector<StoredTensor>& tensors);
// Returns the number of bytes before the first tensor's, from the first 8 bytes of a file.
Result<std::uint64_t> header_bytes_of(std::string_view start, std::uint64_t file_bytes, const std::string& file);

}  // namespace wreath::training
