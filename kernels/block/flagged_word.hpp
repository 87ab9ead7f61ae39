// A flagged word carries data and its own flag. It is read and written whole, in no order with anything else.
#pragma once

#include <cstdint>

#include "src/base/memory_order.hpp"

namespace wreath {

// A word has 4 bytes of data below, and the flag above. It is aligned to 8 bytes.
using FlaggedWord = std::uint64_t;

WREATH_HOST_DEVICE constexpr FlaggedWord flagged(std::uint32_t data, std::uint32_t flag) {
  return (FlaggedWord{flag} << 32) | data;
}
WREATH_HOST_DEVICE constexpr std::uint32_t flag_of(FlaggedWord word) { return static_cast<std::uint32_t>(word >> 32); }
WREATH_HOST_DEVICE constexpr std::uint32_t data_of(FlaggedWord word) { return static_cast<std::uint32_t>(word); }

// A pair of neighbouring words, aligned to 16 bytes. One access moves both, and each word is whole.
struct WordPair {
  FlaggedWord word[2];
};

}  // namespace wreath

#if defined(__CUDA_ARCH__)
namespace wreath {
__device__ inline void store_word(FlaggedWord& place, FlaggedWord word) {
  cuda::atomic_ref<FlaggedWord, cuda::thread_scope_system>(place).store(word, cuda::memory_order_relaxed);
}
__device__ inline WordPair load_pair(const FlaggedWord* first) {
  WordPair pair;
  asm volatile("ld.relaxed.sys.v2.u64 {%0, %1}, [%2];"
               : "=l"(pair.word[0]), "=l"(pair.word[1])
               : "l"(first)
               : "memory");
  return pair;
}
__device__ inline void store_pair(FlaggedWord* first, const WordPair& pair) {
  asm volatile("st.relaxed.sys.v2.u64 [%0], {%1, %2};" ::"l"(first), "l"(pair.word[0]), "l"(pair.word[1]) : "memory");
}
}  // namespace wreath
#else
namespace wreath {
WREATH_HOST_DEVICE inline void store_word(FlaggedWord& place, FlaggedWord word) {
  std::atomic_ref<FlaggedWord>(place).store(word, std::memory_order_relaxed);
}
WREATH_HOST_DEVICE inline WordPair load_pair(const FlaggedWord* first) {
  return {{load_relaxed(first[0]), load_relaxed(first[1])}};
}
WREATH_HOST_DEVICE inline void store_pair(FlaggedWord* first, const WordPair& pair) {
  store_word(first[0], pair.word[0]);
  store_word(first[1], pair.word[1]);
}
}  // namespace wreath
#endif
