// The sum loops, compiled for each instruction set and chosen at run time (Highway).
#include "perf/limits/loops.hpp"

#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "perf/limits/loops.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace wreath::perf {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <bool kStream, class D>
HWY_INLINE void store(hn::Vec<D> value, D d, float* target) {
  if constexpr (kStream) {
    hn::Stream(value, d, target);
  } else {
    hn::StoreU(value, d, target);
  }
}

// Sums vectors, and returns the elements done. Zero for kSources or kTargets means the number that is given at run
// time.
template <int kSources, int kTargets, bool kStream>
std::size_t sum_vectors(const SumWork& work, std::size_t elements) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  const int source_count = kSources > 0 ? kSources : work.source_count;
  const int target_count = kTargets > 0 ? kTargets : work.target_count;
  std::size_t at = 0;
  for (; at + 2 * lanes <= elements; at += 2 * lanes) {
    auto a = hn::LoadU(d, work.sources[0] + at);
    auto b = hn::LoadU(d, work.sources[0] + at + lanes);
    for (int i = 1; i < source_count; ++i) {
      a = hn::Add(a, hn::LoadU(d, work.sources[i] + at));
      b = hn::Add(b, hn::LoadU(d, work.sources[i] + at + lanes));
    }
    for (int j = 0; j < target_count; ++j) {
      store<kStream>(a, d, work.targets[j] + at);
      store<kStream>(b, d, work.targets[j] + at + lanes);
    }
  }
  return at;
}

template <bool kStream>
void sum(const SumWork& given, std::size_t elements) {
  // The stores cannot alias this copy.
  const SumWork work = given;
  std::size_t at = 0;
  if (work.source_count == 2 && work.target_count == 2) {
    at = sum_vectors<2, 2, kStream>(work, elements);
  } else if (work.source_count == 2 && work.target_count == 1) {
    at = sum_vectors<2, 1, kStream>(work, elements);
  } else {
    at = sum_vectors<0, 0, kStream>(work, elements);
  }
  for (; at < elements; ++at) {
    float value = work.sources[0][at];
    for (int i = 1; i < work.source_count; ++i) value += work.sources[i][at];
    for (int j = 0; j < work.target_count; ++j) work.targets[j][at] = value;
  }
  if (kStream) hwy::FlushStream();
}

void sum_plain(const SumWork& work, std::size_t elements) { sum<false>(work, elements); }
void sum_streaming(const SumWork& work, std::size_t elements) { sum<true>(work, elements); }

}  // namespace HWY_NAMESPACE
}  // namespace wreath::perf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wreath::perf {

HWY_EXPORT(sum_plain);
HWY_EXPORT(sum_streaming);

void sum_to_all(const SumWork& work, std::size_t elements, bool streaming) {
  if (streaming) {
    HWY_DYNAMIC_DISPATCH(sum_streaming)(work, elements);
  } else {
    HWY_DYNAMIC_DISPATCH(sum_plain)(work, elements);
  }
}

}  // namespace wreath::perf
#endif  // HWY_ONCE
