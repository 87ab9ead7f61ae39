// Reduces by SIMD. This file is compiled once per instruction set (Highway), for every dtype and operator. Two to eight
// sources run through an unrolled tree in registers. combine.cpp builds the rest of these kernels.
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/arithmetic.hpp"
#include "kernels/cpu/target_kernels.hpp"

// The sets between the baseline, AVX2 and AVX-512 gain little here, and every set costs compile time. Vectors of SVE
// have no constant length, by which the code here tells single elements: by SVE2 it stored one of four narrow values.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/reduce.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace wreath {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Says whether Highway's conversions of float16 are instructions, which round correctly.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
inline constexpr bool kConvertsFloat16 = true;
#else
inline constexpr bool kConvertsFloat16 = false;
#endif

// An element of dtype T is stored as this.
template <typename T>
struct StoredAs {
  using Type = T;
};
template <typename T>
requires NarrowFormat<T>::kExists struct StoredAs<T> {
  using Type = typename NarrowFormat<T>::Bits;
};
template <typename T>
using Stored = typename StoredAs<T>::Type;

// Loads one vector from memory of any alignment. Highway's own one-lane access is a plain one, so it goes bytewise.
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

// Stores one vector to memory of any alignment, in the same way.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void store(hn::Vec<D> vector, D d, T* target) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    const T value = hn::GetLane(vector);
    std::memcpy(target, &value, sizeof(value));
  } else {
    hn::StoreU(vector, d, target);
  }
}

// Makes every NaN the one quiet NaN, so that operand order and instruction set do not show in a result.
template <class D>
HWY_INLINE hn::Vec<D> canonical_vector(D d, hn::Vec<D> value) {
  using T = hn::TFromD<D>;
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = WrappingWord<T>;
    constexpr Bits kNan = sizeof(T) == 8 ? static_cast<Bits>(0x7ff8000000000000u) : Bits{0x7fc00000u};
    return hn::IfThenElse(hn::IsNaN(value), hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), kNan)), value);
  } else {
    return value;
  }
}

// Does the same as `widen` of kernels/arithmetic.hpp. Elements of T at `source` become accumulators in vectors of tag
// D.
template <typename T, class D>
HWY_INLINE hn::Vec<D> load_widened(D d, const Stored<T>* source) {
  if constexpr (!NarrowFormat<T>::kExists) {
    return load(d, source);
  } else {
    using Format = NarrowFormat<T>;
    const auto stored = load(hn::Rebind<Stored<T>, D>(), source);
    const hn::RebindToSigned<D> words;
    const auto word = [&words](std::uint32_t value)
                          HWY_ATTR { return hn::Set(words, static_cast<std::int32_t>(value)); };
    if constexpr (kConvertsFloat16 && std::is_same_v<T, Float16>) {
      return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), stored));
    } else if constexpr (Format::kSameExponent) {
      return hn::BitCast(d, hn::ShiftLeft<Format::kShift>(hn::PromoteTo(words, stored)));
    } else {
      const auto bits = hn::PromoteTo(words, stored);
      const auto magnitude = hn::And(bits, word(Format::kMagnitude));
      const auto sign = hn::ShiftLeft<Format::kSignShift>(hn::Xor(bits, magnitude));
      const auto shifted = hn::ShiftLeft<Format::kShift>(magnitude);
      const auto least = word(Format::kLeastNormal);
      const auto subnormal =
          hn::BitCast(words, hn::Sub(hn::BitCast(d, hn::Add(shifted, least)), hn::BitCast(d, least)));
      auto result = hn::Add(shifted, word(Format::kRebias));
      result = hn::IfThenElse(hn::Lt(magnitude, word(Format::kFirstNormal)), subnormal, result);
      const auto finite = hn::Lt(magnitude, word(Format::kFirstNonFinite));
      result = hn::IfThenElse(finite, result, hn::Or(shifted, word(0x7f800000u)));
      return hn::BitCast(d, hn::Or(result, sign));
    }
  }
}

// Does the same as `narrow` of kernels/arithmetic.hpp. The bits are in 32-bit words.
template <typename T, class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> narrowed(D d, hn::Vec<D> value) {
  using Format = NarrowFormat<T>;
  constexpr std::uint32_t kInfinity = 0x7f800000u;
  const hn::RebindToSigned<D> words;
  const hn::RebindToUnsigned<D> unsigned_words;
  const auto word = [&words](std::uint32_t bits) HWY_ATTR { return hn::Set(words, static_cast<std::int32_t>(bits)); };
  const auto bits = hn::BitCast(words, value);
  const auto magnitude = hn::And(bits, word(0x7fffffffu));
  const auto sign =
      hn::BitCast(words, hn::ShiftRight<Format::kSignShift>(hn::BitCast(unsigned_words, hn::Xor(bits, magnitude))));
  const auto clamped =
      hn::IfThenElse(hn::Gt(magnitude, word(Format::kLargestFloat)), word(Format::kLargestFloat), magnitude);
  const auto finite = Format::kSameExponent ? magnitude : clamped;
  const auto odd = hn::And(hn::ShiftRight<Format::kShift>(finite), word(1));
  constexpr std::uint32_t kRound = (1u << (Format::kShift - 1)) - 1 - Format::kRebias;
  auto result = hn::ShiftRight<Format::kShift>(hn::Add(hn::Add(finite, word(kRound)), odd));
  if constexpr (!Format::kSameExponent) {
    const auto magic = word(Format::kSubnormalMagic);
    const auto summed = hn::Add(hn::BitCast(d, finite), hn::BitCast(d, magic));
    const auto subnormal = hn::Sub(hn::BitCast(words, summed), magic);
    result = hn::IfThenElse(hn::Lt(finite, word(Format::kLeastNormal)), subnormal, result);
  }
  // The largest float of the wider formats rounds to their infinity.
  if constexpr (sizeof(Stored<T>) == 1) {
    result = hn::IfThenElse(hn::Eq(magnitude, word(kInfinity)), word(Format::kFromInfinity), result);
  }
  constexpr std::uint32_t kNoNumber = Format::kFromInfinity == Format::kNan ? kInfinity - 1 : kInfinity;
  return hn::IfThenElse(hn::Gt(magnitude, word(kNoNumber)), word(Format::kNan), hn::Or(result, sign));
}

// Quotients of integers are formed in floats that hold all values of T (see Quotient).
template <typename T>
using Real = std::conditional_t<sizeof(T) <= 2, float, double>;

template <typename T, class D>
HWY_INLINE hn::Vec<D> load_as_reals(D d, const T* source) {
  if constexpr (sizeof(T) <= 2) {
    return hn::ConvertTo(d, hn::PromoteTo(hn::RebindToSigned<D>(), load(hn::Rebind<T, D>(), source)));
  } else {
    const hn::Rebind<std::int32_t, D> signed_words;
    const auto bits = hn::BitCast(signed_words, load(hn::Rebind<T, D>(), source));
    if constexpr (std::is_signed_v<T>) return hn::PromoteTo(d, bits);
    const auto lowered = hn::Xor(bits, hn::Set(signed_words, std::numeric_limits<std::int32_t>::min()));
    return hn::Add(hn::PromoteTo(d, lowered), hn::Set(d, 0x1p31));
  }
}

// Truncates reals below 2^31 to integers T.
template <typename T, class D>
HWY_INLINE hn::Vec<hn::Rebind<T, D>> truncated(D /*d*/, hn::Vec<D> value) {
  const hn::Rebind<T, D> stored;
  if constexpr (sizeof(T) <= 2) {
    return hn::DemoteTo(stored, hn::ConvertTo(hn::RebindToSigned<D>(), value));
  } else {
    return hn::BitCast(stored, hn::DemoteTo(hn::Rebind<std::int32_t, D>(), value));
  }
}

// Stores values like `narrow`, or reals as integers.
template <typename T, class D>
HWY_INLINE void store_narrowed(hn::Vec<D> value, D d, Stored<T>* target) {
  const hn::Rebind<Stored<T>, D> stored;
  if constexpr (std::is_integral_v<T> && std::is_floating_point_v<hn::TFromD<D>>) {
    store(truncated<T>(d, value), stored, target);
  } else if constexpr (!NarrowFormat<T>::kExists) {
    store(canonical_vector(d, value), d, target);
  } else if constexpr (kConvertsFloat16 && std::is_same_v<T, Float16>) {
    const hn::Rebind<hwy::float16_t, D> half;
    store(hn::BitCast(stored, hn::DemoteTo(half, canonical_vector(d, value))), stored, target);
  } else {
    store(hn::DemoteTo(stored, narrowed<T>(d, value)), stored, target);
  }
}

// Returns products that wrap. No instruction multiplies bytes, so they go by halves of 16-bit words.
template <class D>
HWY_INLINE hn::Vec<D> product(D d, hn::Vec<D> a, hn::Vec<D> b) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) > 1) {
    return hn::Mul(a, b);
  } else if constexpr (hn::MaxLanes(D()) == 1) {
    return hn::Set(d, multiply(hn::GetLane(a), hn::GetLane(b)));
  } else {
    const hn::Repartition<std::uint16_t, D> pairs;
    const auto low = hn::Mul(hn::BitCast(pairs, a), hn::BitCast(pairs, b));
    const auto high = hn::Mul(hn::ShiftRight<8>(hn::BitCast(pairs, a)), hn::ShiftRight<8>(hn::BitCast(pairs, b)));
    return hn::BitCast(d, hn::Or(hn::And(low, hn::Set(pairs, 0x00ff)), hn::ShiftLeft<8>(high)));
  }
}

// Returns the lesser or, with kLargest, the greater. Neither is less where floats are equal or one is NaN. Equal floats
// differ only as zeros, in the sign. A NaN ored with anything is a NaN.
template <bool kLargest, class D>
HWY_INLINE hn::Vec<D> extreme([[maybe_unused]] D d, hn::Vec<D> a, hn::Vec<D> b) {
  if constexpr (!std::is_floating_point_v<hn::TFromD<D>>) {
    return kLargest ? hn::Max(a, b) : hn::Min(a, b);
  } else if constexpr (kLargest) {
    const auto alike = hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), hn::Or(a, b));
    return hn::IfThenElse(hn::Gt(a, b), a, hn::IfThenElse(hn::Gt(b, a), b, alike));
  } else {
    return hn::IfThenElse(hn::Lt(a, b), a, hn::IfThenElse(hn::Lt(b, a), b, hn::Or(a, b)));
  }
}

template <ReduceOp kOp, class D>
HWY_INLINE hn::Vec<D> combined(D d, hn::Vec<D> a, hn::Vec<D> b) {
  if constexpr (kOp == ReduceOp::Sum || kOp == ReduceOp::Avg) {
    return hn::Add(a, b);
  } else if constexpr (kOp == ReduceOp::Prod) {
    return product(d, a, b);
  } else {
    return extreme<kOp == ReduceOp::Max>(d, a, b);
  }
}

// A canonical tree over K sources of elements T, which are widened. An average is finished, too.
template <typename T, ReduceOp kOp, int K>
struct Tree {
  using Sum = Accumulator<T>;
  // A store to the target cannot alias this copy.
  const Stored<T>* sources[unsigned{K}];
  Sum ranks = 1;  // an average is divided by it

  // Combines the leaves [First, First + Count) at `at`. The first K - 2^m leaves are pairs.
  template <int First, int Count, class D>
  HWY_INLINE hn::Vec<D> leaves(D d, std::size_t at) const {
    constexpr int kPairs = K - static_cast<int>(std::bit_floor(static_cast<unsigned>(K)));
    if constexpr (Count > 1) {
      return combined<kOp>(d, leaves<First, Count / 2>(d, at), leaves<First + Count / 2, Count / 2>(d, at));
    } else if constexpr (First < kPairs) {
      return combined<kOp>(d, load_widened<T>(d, sources[2 * First] + at),
                           load_widened<T>(d, sources[2 * First + 1] + at));
    } else {
      return load_widened<T>(d, sources[First + kPairs] + at);
    }
  }
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::size_t index) const {
    const auto sum = leaves<0, static_cast<int>(std::bit_floor(static_cast<unsigned>(K)))>(d, index);
    if constexpr (kOp == ReduceOp::Avg) return hn::Div(sum, hn::Set(d, ranks));
    return sum;
  }
};

// The step that one source of elements T takes after it is widened: a factor multiplies it, or a number divides it.
enum class Step { None, Multiply, Divide };
// Converts one source by that step.
template <typename T, Step kStep>
struct Conversion {
  using Sum = Accumulator<T>;
  const Stored<T>* source;
  Sum operand;

  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::size_t index) const {
    const auto value = load_widened<T>(d, source + index);
    if constexpr (kStep == Step::Multiply) {
      return product(d, value, hn::Set(d, operand));
    } else if constexpr (kStep == Step::Divide) {
      return hn::Div(value, hn::Set(d, operand));
    } else {
      return value;
    }
  }
};

// Divides integers by a number: its inverse multiplies them, in floats of 2^-p relative error. The inverse is rounded
// up, so a whole quotient never falls short of itself. No other quotient reaches the next integer, because it lacks 1 /
// number and the error is less.
template <typename T>
struct Quotient {
  static_assert(sizeof(T) <= 2 || sizeof(T) == 4,
                "write load_as_reals and truncated for integers of this size, or divide them alone (divide_integers)");
  using Sum = Real<T>;
  const T* source;
  Sum inverse;

  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::size_t index) const {
    return hn::Mul(load_as_reals(d, source + index), hn::Set(d, inverse));
  }
};

// Stores vectors of tag D from `at` on while whole ones are left. Returns the place where it stopped.
template <typename Out, class Body, class D>
HWY_INLINE std::size_t store_rest(const Body& body, D d, Stored<Out>* target, std::size_t at, std::size_t elements) {
  const std::size_t lanes = hn::Lanes(d);
  for (; at + lanes <= elements; at += lanes) store_narrowed<Out>(body.at(d, at), d, target + at);
  return at;
}

// Stores the results of `body`. Out is their stored type.
template <typename Out, class Body>
HWY_INLINE void store_all(const Body body, std::byte* target_bytes, std::size_t elements) {
  using Sum = typename Body::Sum;
  auto* target = reinterpret_cast<Stored<Out>*>(target_bytes);
  const hn::ScalableTag<Sum> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t at = 0;
  for (; at + 4 * lanes <= elements; at += 4 * lanes) {
    const auto a = body.at(d, at);
    const auto b = body.at(d, at + lanes);
    const auto c = body.at(d, at + 2 * lanes);
    const auto e = body.at(d, at + 3 * lanes);
    store_narrowed<Out>(a, d, target + at);
    store_narrowed<Out>(b, d, target + at + lanes);
    store_narrowed<Out>(c, d, target + at + 2 * lanes);
    store_narrowed<Out>(e, d, target + at + 3 * lanes);
  }
  at = store_rest<Out>(body, d, target, at, elements);
  if constexpr (sizeof(Sum) == 1) at = store_rest<Out>(body, hn::CappedTag<Sum, 16>(), target, at, elements);
  at = store_rest<Out>(body, hn::CappedTag<Sum, 4>(), target, at, elements);
  store_rest<Out>(body, hn::CappedTag<Sum, 1>(), target, at, elements);
}

template <typename T, ReduceOp kOp, int K>
void reduce_fixed(const Arithmetic& arithmetic, std::byte* target, const std::byte* const* given,
                  std::size_t elements) {
  Tree<T, kOp, K> tree;
  for (int i = 0; i < K; ++i) tree.sources[i] = reinterpret_cast<const Stored<T>*>(given[i]);
  if constexpr (kOp == ReduceOp::Avg) tree.ranks = static_cast<Accumulator<T>>(arithmetic.ranks);
  store_all<T>(tree, target, elements);
}

// The sizes of trees that are compiled. Each costs compile time.
enum class Trees { Pairs, Powers, All };

template <typename T, ReduceOp kOp, Trees kTrees>
void reduce(const Arithmetic& arithmetic, std::byte* target, const std::byte* const* sources, int k,
            std::size_t elements) {
  if constexpr (kTrees == Trees::Pairs) {
    return reduce_fixed<T, kOp, 2>(arithmetic, target, sources, elements);
  } else {
    switch (k) {
      case 2: return reduce_fixed<T, kOp, 2>(arithmetic, target, sources, elements);
      case 4: return reduce_fixed<T, kOp, 4>(arithmetic, target, sources, elements);
      case 8: return reduce_fixed<T, kOp, 8>(arithmetic, target, sources, elements);
      default: break;
    }
    if constexpr (kTrees == Trees::All) {
      switch (k) {
        case 3: return reduce_fixed<T, kOp, 3>(arithmetic, target, sources, elements);
        case 5: return reduce_fixed<T, kOp, 5>(arithmetic, target, sources, elements);
        case 6: return reduce_fixed<T, kOp, 6>(arithmetic, target, sources, elements);
        case 7: return reduce_fixed<T, kOp, 7>(arithmetic, target, sources, elements);
        default: break;
      }
    }
  }
}

template <typename T, bool kMultiplies>
void enter(const Arithmetic& arithmetic, std::byte* target, const std::byte* source, std::size_t elements) {
  using Sum = Accumulator<T>;
  constexpr Step kStep = kMultiplies ? Step::Multiply : Step::None;
  const Conversion<T, kStep> body{reinterpret_cast<const Stored<T>*>(source), factor_in<Sum>(arithmetic.reduction)};
  store_all<Sum>(body, target, elements);
}

template <typename T>
void divide_integers(std::byte* target, const std::byte* source, int ranks, std::size_t elements) {
  if constexpr (sizeof(T) == 8) {
    for (std::size_t i = 0; i < elements; ++i) {
      T value;
      std::memcpy(&value, source + i * sizeof(T), sizeof(T));
      value = divide(value, ranks);
      std::memcpy(target + i * sizeof(T), &value, sizeof(T));
    }
  } else if (ranks == 1) {
    // The other quotients are below 2^31.
    std::memmove(target, source, elements * sizeof(T));
  } else {
    const Real<T> nearest = 1 / static_cast<Real<T>>(ranks);
    const Real<T> inverse = std::bit_cast<Real<T>>(std::bit_cast<WrappingWord<Real<T>>>(nearest) + 1);
    store_all<T>(Quotient<T>{reinterpret_cast<const T*>(source), inverse}, target, elements);
  }
}

template <typename T, bool kDivides>
void finish(const Arithmetic& arithmetic, std::byte* target, const std::byte* source, std::size_t elements) {
  using Sum = Accumulator<T>;
  if constexpr (std::is_integral_v<T>) {
    divide_integers<T>(target, source, arithmetic.ranks, elements);
  } else {
    constexpr Step kStep = kDivides ? Step::Divide : Step::None;
    const Conversion<Sum, kStep> body{reinterpret_cast<const Sum*>(source), static_cast<Sum>(arithmetic.ranks)};
    store_all<T>(body, target, elements);
  }
}

// Sums and products have the same bits for signed and unsigned integers.
template <typename T, bool kSigned = std::is_integral_v<T>&& std::is_signed_v<T>>
struct Unsigned {
  using Type = T;
};
template <typename T>
struct Unsigned<T, true> {
  using Type = std::make_unsigned_t<T>;
};
template <typename T, ReduceOp kOp>
using Tallied = std::conditional_t<kOp == ReduceOp::Min || kOp == ReduceOp::Max, T, typename Unsigned<T>::Type>;

template <typename T, ReduceOp kOp>
constexpr TargetKernels kernels_of() {
  constexpr bool kAverages = kOp == ReduceOp::Avg;
  constexpr bool kMultiplies = kOp == ReduceOp::PremultipliedSum;
  constexpr bool kSums = kAverages || kMultiplies || kOp == ReduceOp::Sum;
  constexpr ReduceOp kTree = kSums ? ReduceOp::Sum : kOp;
  constexpr bool kNarrow = NarrowFormat<T>::kExists;
  using Sum = Tallied<Accumulator<T>, kTree>;
  constexpr bool kEveryK = kSums && sizeof(Sum) == 4;
  constexpr Trees kTrees = kEveryK ? Trees::All : (kSums ? Trees::Powers : Trees::Pairs);
  TargetKernels row;
  row.every_k = kEveryK;
  row.largest_k = kSums ? 8 : 2;
  row.partial = reduce<Sum, kTree, kTrees>;
  constexpr bool kFinishes =
      kNarrow ? sizeof(T) == 2 && (kOp == ReduceOp::Sum || kAverages) : std::is_floating_point_v<T> && kAverages;
  if constexpr (kFinishes) row.data = reduce<T, kOp, Trees::Powers>;
  if constexpr (kNarrow) {
    row.enter = enter<T, kMultiplies>;
  } else if constexpr (kMultiplies) {
    row.enter = enter<Sum, true>;
  }
  if constexpr (kNarrow || kAverages) row.finish = finish<T, kAverages>;
  return row;
}

template <typename T>
constexpr std::array<TargetKernels, kReduceOps> kernels_of_dtype() {
  return {kernels_of<T, ReduceOp::Sum>(), kernels_of<T, ReduceOp::Prod>(), kernels_of<T, ReduceOp::Min>(),
          kernels_of<T, ReduceOp::Max>(), kernels_of<T, ReduceOp::Avg>(),  kernels_of<T, ReduceOp::PremultipliedSum>()};
}

}  // namespace

// In the order of DataType.
extern constexpr KernelTable kernel_table =
    table_by_dtype<KernelTable>([](auto row) { return kernels_of_dtype<typename decltype(row)::Element>(); });

}  // namespace HWY_NAMESPACE
}  // namespace wreath
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wreath {

constexpr std::array<Target, kTargets> kTargetTable = {
    Target{HWY_AVX3_DL, HWY_CHOOSE_AVX3_DL(kernel_table)},
    Target{HWY_AVX3, HWY_CHOOSE_AVX3(kernel_table)},
    Target{HWY_AVX2, HWY_CHOOSE_AVX2(kernel_table)},
    Target{HWY_SSE4, HWY_CHOOSE_SSE4(kernel_table)},
    Target{HWY_SSSE3, HWY_CHOOSE_SSSE3(kernel_table)},
    Target{HWY_SVE2_128, HWY_CHOOSE_SVE2_128(kernel_table)},
    Target{HWY_SVE_256, HWY_CHOOSE_SVE_256(kernel_table)},
    Target{HWY_SVE2, HWY_CHOOSE_SVE2(kernel_table)},
    Target{HWY_SVE, HWY_CHOOSE_SVE(kernel_table)},
    Target{HWY_NEON, HWY_CHOOSE_NEON(kernel_table)},
    Target{HWY_STATIC_TARGET, HWY_CHOOSE_FALLBACK(kernel_table)},
};

bool runs_here(const Target& target) noexcept {
  if (target.kernels == nullptr) return false;
  if (&target == &kTargetTable.back()) return true;
  return target.id != HWY_STATIC_TARGET && (target.id & hwy::SupportedTargets()) != 0;
}

const char* name_of(const Target& target) noexcept { return hwy::TargetName(target.id); }

}  // namespace wreath
#endif  // HWY_ONCE
