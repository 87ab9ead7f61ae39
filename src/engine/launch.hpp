// A Launch holds what the lanes of an operation start with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/executor/host.hpp"

namespace wreath {

struct Launch {
  Plan* plan = nullptr;
  OperationState state{};
  Arithmetic arithmetic{};  // none: bytes move unchanged
  std::size_t resident = LaneScheduler::kAllResident;
  // The bytes of the call as bytes_of() counts them. For sends and receives these are all bytes that are sent.
  std::uint64_t bytes = 0;
  bool sends_only = false;  // there are no receives
  // The numbers of entries in the tables of parts, by buffer: Input, Output.
  std::array<std::uint32_t, 2> table_parts{};
};

}  // namespace wreath
