// Memory order for words that two sides share: host threads, processes and CUDA blocks. Chosen here,
// once, by which side this is compiled for; everything above is plain memory and these functions.
#pragma once

#include <cstdint>

#include "wreath/host_device.hpp"

#if defined(__CUDACC__)
#define WREATH_NOINLINE __noinline__  // one copy of code for all kernels
#else
#define WREATH_NOINLINE
#endif

#if defined(__CUDA_ARCH__)

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
__device__ inline void acquire_fence() {
  cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_system);
}
__device__ inline void full_fence() {
  cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_system);
}

}  // namespace wreath

#else

#include <atomic>

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
#if defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"  // fences are not modelled; both sides of each are atomics
#endif
// Orders earlier loads before later loads and stores.
WREATH_HOST_DEVICE inline void acquire_fence() { std::atomic_thread_fence(std::memory_order_acquire); }
// Orders earlier stores before later loads: between publishing and asking whether the peer sleeps.
WREATH_HOST_DEVICE inline void full_fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
#if defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic pop
#endif

}  // namespace wreath

#endif
