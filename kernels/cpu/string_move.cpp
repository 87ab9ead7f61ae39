// Uses `rep movsb` on x86. Elsewhere, and under sanitizers (which cannot see into assembly), it uses memcpy.
#include "kernels/cpu/string_move.hpp"

#include <cstring>

#if defined(__x86_64__) && !defined(WREATH_SANITIZED)

#include <cpuid.h>

namespace wreath {

bool has_fast_string_move() noexcept {
  constexpr unsigned kErms = 1u << 9;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & kErms) != 0;
}

void move_string(std::byte* target, const std::byte* source, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(bytes) : : "memory");
}

}  // namespace wreath

#else

namespace wreath {

bool has_fast_string_move() noexcept { return false; }

void move_string(std::byte* target, const std::byte* source, std::size_t bytes) { std::memcpy(target, source, bytes); }

}  // namespace wreath

#endif
