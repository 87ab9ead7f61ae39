// This file checks arguments.
#include "training/parameters/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "wreath/result.hpp"

namespace wreath::training {

void refuse(std::string_view name, const std::string& reason) {
  throw Exception({ErrorCode::InvalidArgument, fmt::format("{}: {}", name, reason), -1});
}

void expect_size(std::string_view name, std::string_view what, std::size_t size, std::int64_t expected) {
  if (static_cast<std::int64_t>(size) == expected) return;
  refuse(name, fmt::format("{} has {} elements, but must have {}", what, size, expected));
}

void expect_indices(std::string_view name, std::string_view what, std::span<const std::int32_t> indices,
                    std::int64_t count) {
  const auto found =
      std::find_if(indices.begin(), indices.end(), [&](std::int32_t index) { return index < 0 || index >= count; });
  if (found == indices.end()) return;
  refuse(name,
         fmt::format("{} of row {} is {}, but must be in 0 .. {}", what, found - indices.begin(), *found, count - 1));
}

}  // namespace wreath::training
