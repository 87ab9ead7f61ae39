// The processor's own block move writes whole lines without first fetching a reader's copy of them.
#pragma once

#include <cstddef>

namespace wreath {

// Returns whether move_string is there and fast on this processor (x86: the ERMS bit of CPUID).
bool has_fast_string_move() noexcept;

// Copies between memory that does not overlap. It may be called only where has_fast_string_move().
void move_string(std::byte* target, const std::byte* source, std::size_t bytes);

}  // namespace wreath
