// Counts the copies that the processor makes.
#pragma once

#include "kernels/kernels.hpp"

namespace wreath {

struct CopyCounts {
  int plain = 0;     // by plain stores
  int pages = 0;     // by plain stores of pages side by side
  int past = 0;      // past the caches
  int unfenced = 0;  // past the caches, since the last fence
  int fences = 0;
};

// Kernels are plain functions, so their counts have no other place.
inline CopyCounts& copy_counts() {
  static CopyCounts counts;
  return counts;
}

// Sets the counts to zero, and returns kernels that count.
inline CopyKernels counting_kernels() {
  copy_counts() = {};
  CopyKernels kernels = copy_kernels();
  kernels.fill = [](std::byte* to, const std::byte* from, std::size_t bytes) {
    ++copy_counts().plain;
    copy_kernels().fill(to, from, bytes);
  };
  kernels.fill_pages = [](std::byte* to, const std::byte* from, std::size_t bytes) {
    ++copy_counts().pages;
    copy_kernels().fill(to, from, bytes);
  };
  kernels.stream = [](std::byte* to, const std::byte* from, std::size_t bytes) {
    ++copy_counts().past;
    ++copy_counts().unfenced;
    copy_kernels().stream(to, from, bytes);
  };
  kernels.end_stream = [] {
    ++copy_counts().fences;
    copy_counts().unfenced = 0;
    copy_kernels().end_stream();
  };
  return kernels;
}

}  // namespace wreath
