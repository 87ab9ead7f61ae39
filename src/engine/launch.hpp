// Launch: what the lanes of an operation start with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/executor/host.hpp"

namespace wreath {

struct Launch {
  Plan* plan = nullptr;
  OperationState state{};
  Arithmetic arithmetic{};  // none: bytes are moved as they are
  std::size_t resident = LaneScheduler::kAllResident;
  std::uint64_t bytes = 0;  // of the call: bytes_of(); of sends and receives all that is sent
  bool sends_only = false;  // sends without receives
  // The entries of the tables of parts, by buffer: Input, Output.
  std::array<std::uint32_t, 2> table_parts{};
};

}  // namespace wreath
