// Orders memory for words that two sides share: host threads, processes and CUDA blocks. The order is chosen here,
// once, by the side that this is compiled for; all code above is plain memory and these functions.
//
// Words may be far, beyond a bus, where a GPU would pay for each acquire and each release. One fence then serves any
// number of looks and tells:
//   look(word)         reads a word; most looks find nothing
//   acquire_looks()    makes valid what looks have found, and what was written before that
//   finish_writes()    shows what was written before to a side that sees a word told after it
//   finish_reads()     orders earlier reads before any later look, or word told
//   tell(word, value)  writes a word
// load_far(place) returns a copy that reads each word once: values that another process may change are used as they
// were checked. On a host, where orders are free, look() acquires and tell() releases. The only fence there is the one
// that a look after finish_reads() needs: ThreadSanitizer follows no fences.
#pragma once

#include <cstdint>

#include "wreath/host_device.hpp"

#if defined(__CUDACC__)
// With this there is one copy of the code for all kernels.
#define WREATH_NOINLINE __noinline__
#define WREATH_UNROLL _Pragma("unroll")
#else
#define WREATH_NOINLINE
#define WREATH_UNROLL
#endif

#if defined(__CUDA_ARCH__)

#include <cstring>
#include <cuda/atomic>

namespace wreath {

template <typename T>
__device__ inline T load_acquire(const T& word) {
  return cuda::atomic_ref<T, cuda::thread_scope_system>(const_cast<T&>(word)).load(cuda::memory_order_acquire);
}
template <typename T>
__device__ inline T load_relaxed(const T& word) {
  return cuda::atomic_ref<T, cuda::thread_scope_system>(const_cast<T&>(word)).load(cuda::memory_order_relaxed);
}
template <typename T>
__device__ inline void store_relaxed(T& word, T value) {
  cuda::atomic_ref<T, cuda::thread_scope_system>(word).store(value, cuda::memory_order_relaxed);
}
template <typename T>
__device__ inline void store_release(T& word, T value) {
  cuda::atomic_ref<T, cuda::thread_scope_system>(word).store(value, cuda::memory_order_release);
}
template <typename T>
__device__ inline T look(const T& word) {
  return load_relaxed(word);
}
template <typename T>
__device__ inline void tell(T& word, T value) {
  store_relaxed(word, value);
}
__device__ inline void acquire_looks() {
  cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_system);
}
__device__ inline void finish_writes() { acquire_looks(); }
__device__ inline void finish_reads() { acquire_looks(); }
// Returns a copy of an object that is far: all of it is on its way at once.
template <typename T>
__device__ inline T load_far(const T& place) {
  static_assert(sizeof(T) % 16 == 0 && alignof(T) % 16 == 0);
  uint4 words[sizeof(T) / 16];
#pragma unroll
  for (unsigned i = 0; i < sizeof(T) / 16; ++i) {
    asm volatile("ld.relaxed.sys.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[i].x), "=r"(words[i].y), "=r"(words[i].z), "=r"(words[i].w)
                 : "l"(reinterpret_cast<const uint4*>(&place) + i)
                 : "memory");
  }
  T held;
  std::memcpy(&held, words, sizeof(held));
  return held;
}
__device__ inline void full_fence() {
  cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_system);
}

}  // namespace wreath

#else

#include <atomic>
#include <cstddef>
#include <utility>

namespace wreath {

// Loads never store, so they work on memory mapped read only.
template <typename T>
WREATH_HOST_DEVICE inline T load_acquire(const T& word) {
  return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_acquire);
}
template <typename T>
WREATH_HOST_DEVICE inline T load_relaxed(const T& word) {
  return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_relaxed);
}
template <typename T>
WREATH_HOST_DEVICE inline void store_relaxed(T& word, T value) {
  std::atomic_ref<T>(word).store(value, std::memory_order_relaxed);
}
template <typename T>
WREATH_HOST_DEVICE inline void store_release(T& word, T value) {
  std::atomic_ref<T>(word).store(value, std::memory_order_release);
}
template <typename T>
WREATH_HOST_DEVICE inline T look(const T& word) {
  return load_acquire(word);
}
template <typename T>
WREATH_HOST_DEVICE inline void tell(T& word, T value) {
  store_release(word, value);
}
WREATH_HOST_DEVICE inline void acquire_looks() {}
WREATH_HOST_DEVICE inline void finish_writes() {}
template <typename T>
WREATH_HOST_DEVICE inline T load_far(const T& place) {
  using Piece [[gnu::may_alias]] = std::uint64_t;
  static_assert(sizeof(T) % 8 == 0 && alignof(T) % 8 == 0);
  T held;
  const auto* const from = reinterpret_cast<const Piece*>(&place);
  auto* const to = reinterpret_cast<Piece*>(&held);
  const auto load = [&]<std::size_t... kPieces>(std::index_sequence<kPieces...>) {
    ((to[kPieces] = __atomic_load_n(from + kPieces, __ATOMIC_RELAXED)), ...);
  };
  load(std::make_index_sequence<sizeof(T) / 8>());
  return held;
}
#if defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic push
// ThreadSanitizer does not model fences; both sides of each fence are atomics.
#pragma GCC diagnostic ignored "-Wtsan"
#endif
WREATH_HOST_DEVICE inline void finish_reads() { std::atomic_thread_fence(std::memory_order_acquire); }
// Orders earlier stores before later loads. It stands between publishing and asking whether the peer sleeps.
WREATH_HOST_DEVICE inline void full_fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
#if defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic pop
#endif

}  // namespace wreath

#endif
