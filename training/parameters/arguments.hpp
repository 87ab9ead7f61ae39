// This file declares checks of arguments for divided layers. Their errors name the layer, the argument and its value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace wreath::training {

// Throws InvalidArgument with the text "NAME: REASON".
[[noreturn]] void refuse(std::string_view name, const std::string& reason);
// Checks that `what` of `name` has `expected` elements. Otherwise it throws InvalidArgument.
void expect_size(std::string_view name, std::string_view what, std::size_t size, std::int64_t expected);
// Checks that each of a row's indices is in 0 .. count - 1. Otherwise it throws InvalidArgument. All ranks have all
// rows, so all throw alike.
void expect_indices(std::string_view name, std::string_view what, std::span<const std::int32_t> indices,
                    std::int64_t count);

}  // namespace wreath::training
