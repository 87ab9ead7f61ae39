// Gives random bytes of the system, for keys and for numbers that no two processes may share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace wreath {

// Fills `bytes` from getrandom or, where a sandbox or an old kernel refuses it, from /dev/urandom. A process that gets
// none from either says so and aborts: it has no way to keep secrets, or names apart.
void fill_random(std::span<std::byte> bytes);
std::uint64_t random_u64();

}  // namespace wreath
