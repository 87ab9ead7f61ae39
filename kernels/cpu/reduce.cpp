// Reductions by SIMD: compiled once per instruction set, chosen at run time (Highway's dynamic dispatch).
// Two to eight sources run through an unrolled tree in registers; more run through trees of eight over blocks in L1.
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/reduce.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace wreath {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// One vector from or to memory of any alignment. Highway's own one-lane access is a plain one, so it goes bytewise.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load(D d, const T* source) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    T value;
    std::memcpy(&value, source, sizeof(value));
    return hn::Set(d, value);
  } else {
    return hn::LoadU(d, source);
  }
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void store(hn::Vec<D> vector, D d, T* target) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    const T value = hn::GetLane(vector);
    std::memcpy(target, &value, sizeof(value));
  } else {
    hn::StoreU(vector, d, target);
  }
}

// A result that is NaN is the quiet NaN 0x7fc00000, so that operand order and instruction set do not show.
template <class D>
HWY_INLINE hn::Vec<D> finish(D d, hn::Vec<D> sum) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return hn::IfThenElse(hn::IsNaN(sum), hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), 0x7fc00000u)), sum);
  } else {
    return sum;
  }
}

// The canonical tree over K sources at `at`: leaves [First, First + Count), where the first K - 2^m leaves are pairs.
template <int K, int First, int Count, class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> tree(D d, const T* const* sources, std::size_t at) {
  constexpr int kPairs = K - static_cast<int>(std::bit_floor(static_cast<unsigned>(K)));
  if constexpr (Count > 1) {
    return hn::Add(tree<K, First, Count / 2>(d, sources, at), tree<K, First + Count / 2, Count / 2>(d, sources, at));
  } else if constexpr (First < kPairs) {
    return hn::Add(load(d, sources[2 * First] + at), load(d, sources[2 * First + 1] + at));
  } else {
    return load(d, sources[First + kPairs] + at);
  }
}

template <int K, class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> sum(D d, const T* const* sources, std::size_t at) {
  return finish(d, tree<K, 0, static_cast<int>(std::bit_floor(static_cast<unsigned>(K)))>(d, sources, at));
}

// Sums vectors of tag D from `at` on while whole ones are left; returns where it stopped.
template <int K, class D, typename T = hn::TFromD<D>>
HWY_INLINE std::size_t sum_rest(D d, T* target, const T* const* sources, std::size_t at, std::size_t elements) {
  const std::size_t lanes = hn::Lanes(d);
  for (; at + lanes <= elements; at += lanes) store(sum<K>(d, sources, at), d, target + at);
  return at;
}

template <int K, typename T>
void reduce_fixed(std::byte* target_bytes, const std::byte* const* given, std::size_t elements) {
  T* target = reinterpret_cast<T*>(target_bytes);
  const T* sources[unsigned{K}];  // a copy that stores to the target cannot alias
  for (int i = 0; i < K; ++i) sources[i] = reinterpret_cast<const T*>(given[i]);
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t at = 0;
  for (; at + 4 * lanes <= elements; at += 4 * lanes) {
    const auto a = sum<K>(d, sources, at);
    const auto b = sum<K>(d, sources, at + lanes);
    const auto c = sum<K>(d, sources, at + 2 * lanes);
    const auto e = sum<K>(d, sources, at + 3 * lanes);
    store(a, d, target + at);
    store(b, d, target + at + lanes);
    store(c, d, target + at + 2 * lanes);
    store(e, d, target + at + 3 * lanes);
  }
  at = sum_rest<K>(d, target, sources, at, elements);
  at = sum_rest<K>(hn::CappedTag<T, 4>(), target, sources, at, elements);
  sum_rest<K>(hn::CappedTag<T, 1>(), target, sources, at, elements);
}

// More than eight sources: groups of eight leaves become rows, and rows merge like the digits of a binary counter.
constexpr std::size_t kBlockBytes = 1024;
constexpr int kGroup = 8;

struct alignas(64) Row {
  std::byte bytes[kBlockBytes];
};

// One block, `at` bytes into the sources. The target's block is written last, so it may be a source.
template <typename T>
void reduce_block(std::byte* target, const std::byte* const* sources, int k, std::size_t at, std::size_t elements) {
  Row pairs[kGroup];
  Row rows[32];
  const int leaves = static_cast<int>(std::bit_floor(static_cast<unsigned>(k)));
  const int paired = k - leaves;
  int depth = 0;
  for (int group = 0; group < leaves / kGroup; ++group) {
    const std::byte* group_sources[kGroup];
    for (int i = 0; i < kGroup; ++i) {
      const int leaf = group * kGroup + i;
      group_sources[i] = leaf < paired ? pairs[i].bytes : sources[leaf + paired] + at;
      if (leaf < paired) {
        const std::byte* pair[] = {sources[2 * leaf] + at, sources[2 * leaf + 1] + at};
        reduce_fixed<2, T>(pairs[i].bytes, pair, elements);
      }
    }
    reduce_fixed<kGroup, T>(rows[depth++].bytes, group_sources, elements);
    for (int done = group + 1; done % 2 == 0; done /= 2) {
      const std::byte* pair[] = {rows[depth - 2].bytes, rows[depth - 1].bytes};
      reduce_fixed<2, T>(rows[--depth - 1].bytes, pair, elements);
    }
  }
  std::memcpy(target + at, rows[0].bytes, elements * sizeof(T));
}

template <typename T>
void reduce_many(std::byte* target, const std::byte* const* sources, int k, std::size_t elements) {
  const std::size_t bytes = elements * sizeof(T);
  for (std::size_t at = 0; at < bytes; at += kBlockBytes) {
    const std::size_t block_bytes = bytes - at < kBlockBytes ? bytes - at : kBlockBytes;
    reduce_block<T>(target, sources, k, at, block_bytes / sizeof(T));
  }
}

// T: float, or std::uint32_t for both signednesses, whose sums wrap alike.
template <typename T>
void reduce_sum(std::byte* target, const std::byte* const* sources, int k, std::size_t elements) {
  switch (k) {
    case 1: std::memmove(target, sources[0], elements * sizeof(T)); break;
    case 2: reduce_fixed<2, T>(target, sources, elements); break;
    case 3: reduce_fixed<3, T>(target, sources, elements); break;
    case 4: reduce_fixed<4, T>(target, sources, elements); break;
    case 5: reduce_fixed<5, T>(target, sources, elements); break;
    case 6: reduce_fixed<6, T>(target, sources, elements); break;
    case 7: reduce_fixed<7, T>(target, sources, elements); break;
    case 8: reduce_fixed<8, T>(target, sources, elements); break;
    default: reduce_many<T>(target, sources, k, elements);
  }
}

// Sums of four-byte types, whose forms are the same bytes, run here; all else is the reference.
void combine(const Arithmetic& arithmetic, std::byte* target, Form target_form, const std::byte* const* sources, int k,
             Operands operands, std::size_t elements) {
  const bool sums = arithmetic.reduction.op == ReduceOp::Sum;
  if (sums && arithmetic.dtype == DataType::Float32) return reduce_sum<float>(target, sources, k, elements);
  if (sums && (arithmetic.dtype == DataType::Int32 || arithmetic.dtype == DataType::Uint32)) {
    return reduce_sum<std::uint32_t>(target, sources, k, elements);
  }
  combine_reference(arithmetic, target, target_form, sources, k, operands, elements);
}

}  // namespace

Arithmetic::Combine combine_of_target() { return combine; }

}  // namespace HWY_NAMESPACE
}  // namespace wreath
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wreath {
namespace {

using KernelOfTarget = Arithmetic::Combine (*)();

struct TargetRow {
  std::int64_t target;
  KernelOfTarget kernel_of;  // null where it is not compiled in
};

// Best first. The last row is the baseline of this build.
constexpr std::array kRows = {
    TargetRow{HWY_AVX3_DL, HWY_CHOOSE_AVX3_DL(combine_of_target)},
    TargetRow{HWY_AVX3, HWY_CHOOSE_AVX3(combine_of_target)},
    TargetRow{HWY_AVX2, HWY_CHOOSE_AVX2(combine_of_target)},
    TargetRow{HWY_SSE4, HWY_CHOOSE_SSE4(combine_of_target)},
    TargetRow{HWY_SSSE3, HWY_CHOOSE_SSSE3(combine_of_target)},
    TargetRow{HWY_SVE2_128, HWY_CHOOSE_SVE2_128(combine_of_target)},
    TargetRow{HWY_SVE_256, HWY_CHOOSE_SVE_256(combine_of_target)},
    TargetRow{HWY_SVE2, HWY_CHOOSE_SVE2(combine_of_target)},
    TargetRow{HWY_SVE, HWY_CHOOSE_SVE(combine_of_target)},
    TargetRow{HWY_NEON, HWY_CHOOSE_NEON(combine_of_target)},
    TargetRow{HWY_STATIC_TARGET, HWY_CHOOSE_FALLBACK(combine_of_target)},
};

bool runs_here(const TargetRow& row) noexcept {
  if (row.kernel_of == nullptr) return false;
  if (&row == &kRows.back()) return true;
  return row.target != HWY_STATIC_TARGET && (row.target & hwy::SupportedTargets()) != 0;
}

}  // namespace

std::size_t combine_targets(DataType /*dtype*/, ReduceOp /*op*/, CombineTarget* targets,
                            std::size_t capacity) noexcept {
  std::size_t found = 0;
  for (const TargetRow& row : kRows) {
    if (found < capacity && runs_here(row)) targets[found++] = {hwy::TargetName(row.target), row.kernel_of()};
  }
  return found;
}

Arithmetic arithmetic(DataType dtype, const Reduction& reduction, int ranks) noexcept {
  static const TargetRow& best = *[] {
    const TargetRow* row = kRows.data();
    while (!runs_here(*row)) ++row;
    return row;
  }();
  return {best.kernel_of(), dtype, reduction, ranks};
}

}  // namespace wreath
#endif  // HWY_ONCE
