// Checks of what callers give to divided layers: errors that name the layer, the argument and its value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace wreath::training {

// Throws InvalidArgument: "NAME: REASON".
[[noreturn]] void refuse(std::string_view name, const std::string& reason);
// `what` of `name` has `expected` elements, else InvalidArgument.
void expect_size(std::string_view name, std::string_view what, std::size_t size, std::int64_t expected);
// Each of a row's indices is in 0 .. count - 1, else InvalidArgument. All ranks have all rows, so all refuse alike.
void expect_indices(std::string_view name, std::string_view what, std::span<const std::int32_t> indices,
                    std::int64_t count);

}  // namespace wreath::training
