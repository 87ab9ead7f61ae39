// Replaces the library's header of this name: it does what that header does on a GPU, and reports every access. Far
// memory cannot be touched at the address that code is given (far_memory.hpp), but only by these functions.
#pragma once

#include <cstddef>
#include <string>

#include "wreath/host_device.hpp"

#define WREATH_NOINLINE
#define WREATH_UNROLL

namespace wreath {

namespace far {
// Reports that `what` was done to the word at `address`, and returns where the word can be touched.
void* reach(const void* address, const char* what);
void tell_of(const std::string& event);
}  // namespace far

template <typename T>
T load_relaxed(const T& word) {
  return *static_cast<const T*>(far::reach(&word, "load"));
}
template <typename T>
T load_acquire(const T& word) {
  return *static_cast<const T*>(far::reach(&word, "acquire"));
}
template <typename T>
void store_relaxed(T& word, T value) {
  *static_cast<T*>(far::reach(&word, "store")) = value;
}
template <typename T>
void store_release(T& word, T value) {
  *static_cast<T*>(far::reach(&word, "release")) = value;
}
template <typename T>
T look(const T& word) {
  return *static_cast<const T*>(far::reach(&word, "look at"));
}
template <typename T>
void tell(T& word, T value) {
  *static_cast<T*>(far::reach(&word, "tell")) = value;
}
inline void acquire_looks() { far::tell_of("fence"); }
inline void finish_writes() { far::tell_of("fence"); }
inline void finish_reads() { far::tell_of("fence"); }
inline void full_fence() { far::tell_of("full fence"); }
template <typename T>
T load_far(const T& place) {
  return *static_cast<const T*>(far::reach(&place, "read"));
}

}  // namespace wreath
