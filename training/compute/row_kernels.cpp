// This file has loops over rows, compiled once per instruction set (Highway).
#include "training/compute/row_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

#include "training/compute/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "training/compute/row_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
//
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace wreath::training {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kPartialSums = 16;
using Whole = hn::CappedTag<float, kPartialSums>;
using One = hn::CappedTag<float, 1>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Whole()));

// Stores body.at(tag, i) for i from `at` on, for fewer than kCount values. It works by halves, since a body may be
// long.
template <std::size_t kCount, class Body>
HWY_INLINE void store_rest(const Body& body, float* target, std::int64_t at, std::int64_t count) {
  if constexpr (kCount > 1) {
    constexpr auto kHalf = static_cast<std::int64_t>(kCount / 2);
    const hn::CappedTag<float, kCount / 2> half;
    if (count - at >= kHalf) {
      hn::StoreU(body.at(half, at), half, target + at);
      at += kHalf;
    }
    store_rest<kCount / 2>(body, target, at, count);
  }
}

// Stores body.at(tag, i) for all i.
template <class Body>
HWY_INLINE void store_all(const Body body, float* target, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(body.at(Whole(), i), Whole(), target + i);
  store_rest<kLanes>(body, target, i, count);
}

// The first kCount of the partial sums or partial maxima, with kLanes in a vector.
template <class Body, int kCount>
struct Partial {
  Partial<Body, kCount - kLanes> before;
  hn::Vec<Whole> last;

  HWY_INLINE void begin() {
    before.begin();
    last = hn::Set(Whole(), Body::kFirst);
  }
  HWY_INLINE void take(const Body& body, std::int64_t at) {
    before.take(body, at);
    last = Body::combined(last, body.at(Whole(), at + kCount - kLanes));
  }
  HWY_INLINE void store(float* target) const {
    before.store(target);
    hn::StoreU(last, Whole(), target + kCount - kLanes);
  }
};
template <class Body>
struct Partial<Body, 0> {
  HWY_INLINE void begin() {}
  HWY_INLINE void take(const Body& /*body*/, std::int64_t /*at*/) {}
  HWY_INLINE void store(float* /*target*/) const {}
};

template <class Body>
HWY_INLINE float combine_all(const Body body, std::int64_t count) {
  Partial<Body, kPartialSums> partial;
  partial.begin();
  std::int64_t i = 0;
  for (; i + kPartialSums <= count; i += kPartialSums) partial.take(body, i);
  float lanes[kPartialSums];
  partial.store(lanes);
  const One one;
  for (int lane = 0; i < count; ++i, ++lane) {
    lanes[lane] = hn::GetLane(Body::combined(hn::Set(one, lanes[lane]), body.at(one, i)));
  }
  for (int half = kPartialSums / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) {
      lanes[lane] = hn::GetLane(Body::combined(hn::Set(one, lanes[lane]), hn::Set(one, lanes[lane + half])));
    }
  }
  return lanes[0];
}

struct Summed {
  static constexpr float kFirst = 0.0f;
  template <class V>
  static HWY_INLINE V combined(V a, V b) {
    return hn::Add(a, b);
  }
};

// ---- elements ----

struct Sum {
  const float* a;
  const float* b;
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    return hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i));
  }
};

struct Scaled {
  const float* x;
  float factor;
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    return hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor));
  }
};

struct Value : Summed {
  const float* x;
  explicit Value(const float* of) : x(of) {}
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    return hn::LoadU(d, x + i);
  }
};

struct ProductOf : Summed {
  const float* a;
  const float* b;
  ProductOf(const float* left, const float* right) : a(left), b(right) {}
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    return hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i));
  }
};

struct SquaredDistance : Summed {
  const float* x;
  float mean;
  SquaredDistance(const float* of, float from) : x(of), mean(from) {}
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    const auto distance = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    return hn::Mul(distance, distance);
  }
};

template <class D>
HWY_INLINE hn::Vec<D> normalized(D d, const float* x, const Normalized& of) {
  return hn::Mul(hn::Sub(hn::LoadU(d, x), hn::Set(d, of.mean)), hn::Set(d, of.reciprocal_deviation));
}

struct NormOutput {
  const float* x;
  const float* weight;
  const float* bias;
  Normalized of;
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    const auto scaled = hn::Mul(normalized(d, x + i, of), hn::LoadU(d, weight + i));
    return bias == nullptr ? scaled : hn::Add(scaled, hn::LoadU(d, bias + i));
  }
};

// Sums the product of gradient, weight and normalized x.
struct Projection : Summed {
  const float* x;
  const float* weight;
  const float* dy;
  Normalized of;
  Projection(const float* in, const float* by, const float* gradient, const Normalized& row)
      : x(in), weight(by), dy(gradient), of(row) {}
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    return hn::Mul(hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, weight + i)), normalized(d, x + i, of));
  }
};

struct NormGradient {
  Projection terms;
  float mean;       // of dy * weight
  float projected;  // the mean of terms
  const float* before;
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    const auto scaled = hn::Mul(hn::LoadU(d, terms.dy + i), hn::LoadU(d, terms.weight + i));
    const auto common = hn::Add(hn::Set(d, mean), hn::Mul(normalized(d, terms.x + i, terms.of), hn::Set(d, projected)));
    const auto gradient = hn::Mul(hn::Sub(scaled, common), hn::Set(d, terms.of.reciprocal_deviation));
    return hn::Add(hn::LoadU(d, before + i), gradient);
  }
};

struct NormWeightGradient {
  const float* x;
  const float* dy;
  const float* before;
  Normalized of;
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    return hn::MulAdd(hn::LoadU(d, dy + i), normalized(d, x + i, of), hn::LoadU(d, before + i));
  }
};

// ---- GELU: x times the share of the normal distribution below x, or times a logistic function near that share ----

template <class D>
struct Share {
  hn::Vec<D> share;
  hn::Vec<D> slope;
};

// Returns coefficients[0] t^(kCount - 1) + ... + coefficients[kCount - 1].
template <std::size_t kCount, class D>
HWY_INLINE hn::Vec<D> polynomial(D d, const float (&coefficients)[kCount], hn::Vec<D> t) {
  auto value = hn::Set(d, coefficients[0]);
  for (std::size_t i = 1; i < kCount; ++i) value = hn::MulAdd(value, t, hn::Set(d, coefficients[i]));
  return value;
}

// Returns the share below x. For |x| < 1.25 it is 1/2 + x P(x^2), with P fitted to a relative error of 1e-8. Otherwise
// it comes from the share above |x|, which is exp(-x^2 / 2) t Q(t) with t = 1 / (1 + 0.35 |x|). Q is fitted to 3.2e-8
// up to 14.5; beyond, the share is below the least float.
template <class D>
HWY_INLINE Share<D> normal_share(D d, hn::Vec<D> x) {
  constexpr float kNear[] = {-6.8094896e-6f, 1.11041118e-4f,  -1.18383719e-3f,
                             9.97228269e-3f, -6.64902106e-2f, 0.398942262f};
  constexpr float kFar[] = {-0.02915803f, 0.14403161f, -0.2558404f, 0.15932125f, -0.02321339f,
                            0.10555293f,  0.11982118f, 0.13986353f, 0.13962131f};
  constexpr float kPeak = std::numbers::inv_sqrtpi_v<float> * std::numbers::sqrt2_v<float> * 0.5f;
  const auto one = hn::Set(d, 1.0f);
  const auto square = hn::Mul(x, x);
  const auto near = hn::MulAdd(x, polynomial(d, kNear, square), hn::Set(d, 0.5f));
  const auto t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.35f), hn::Abs(x), one));
  const auto falling = hn::Exp(d, hn::Mul(square, hn::Set(d, -0.5f)));
  const auto above = hn::Mul(falling, hn::Mul(polynomial(d, kFar, t), t));
  const auto far = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), above, hn::Sub(one, above));
  const auto share = hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 1.25f)), near, far);
  return {share, hn::Mul(falling, hn::Set(d, kPeak))};
}

// Returns (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3).
template <class D>
HWY_INLINE Share<D> logistic_share(D d, hn::Vec<D> x) {
  constexpr float kTwice = 1.5957691216057308f;  // 2 sqrt(2 / pi)
  constexpr float kCubic = 0.044715f;
  const auto one = hn::Set(d, 1.0f);
  const auto square = hn::Mul(x, x);
  const auto twice = hn::Mul(hn::Mul(x, hn::Set(d, kTwice)), hn::MulAdd(square, hn::Set(d, kCubic), one));
  const auto falling = hn::Exp(d, hn::Min(hn::Neg(twice), hn::Set(d, 88.0f)));
  const auto logistic = hn::Div(one, hn::Add(one, falling));
  // The product of such low values is below the least float.
  const auto share = hn::IfThenElse(hn::Lt(twice, hn::Set(d, -88.0f)), hn::Zero(d), logistic);
  const auto inner = hn::Mul(hn::MulAdd(square, hn::Set(d, 3.0f * kCubic), one), hn::Set(d, kTwice));
  // The slope uses 1 - share = share * falling.
  return {share, hn::Mul(hn::Mul(hn::Mul(share, falling), share), inner)};
}

template <Gelu kKind, class D>
HWY_INLINE Share<D> share_of(D d, hn::Vec<D> x) {
  if constexpr (kKind == Gelu::Exact) {
    return normal_share(d, x);
  } else {
    return logistic_share(d, x);
  }
}

template <Gelu kKind>
struct GeluOutput {
  const float* x;
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    const auto value = hn::LoadU(d, x + i);
    return hn::Mul(value, share_of<kKind>(d, value).share);
  }
};

template <Gelu kKind>
struct GeluGradient {
  const float* x;
  const float* dy;
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    const auto value = hn::LoadU(d, x + i);
    const auto of = share_of<kKind>(d, value);
    return hn::Mul(hn::LoadU(d, dy + i), hn::MulAdd(value, of.slope, of.share));
  }
};

// ---- attention ----

struct Highest {
  static constexpr float kFirst = -std::numeric_limits<float>::infinity();
  const float* scores;
  float factor;
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    return hn::Mul(hn::LoadU(d, scores + i), hn::Set(d, factor));
  }
  template <class V>
  static HWY_INLINE V combined(V a, V b) {
    return hn::Max(a, b);
  }
};

// Rounds like Highest, so that no exponential exceeds 1.
struct Exponential {
  const float* scores;
  float factor;
  float highest;
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    const auto exponent = hn::Sub(hn::Mul(hn::LoadU(d, scores + i), hn::Set(d, factor)), hn::Set(d, highest));
    // Highway's Exp() gives 0 for NaN, so NaN is passed on.
    return hn::IfThenElse(hn::IsNaN(exponent), exponent, hn::Exp(d, exponent));
  }
};

struct ScoreSlope {
  const float* probabilities;
  const float* slopes;
  float delta;
  float factor;
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    const auto centred = hn::Sub(hn::LoadU(d, slopes + i), hn::Set(d, delta));
    return hn::Mul(hn::Mul(hn::LoadU(d, probabilities + i), centred), hn::Set(d, factor));
  }
};

// ---- rows ----

void add(float* y, const float* x, std::int64_t count) { store_all(Sum{y, x}, y, count); }

void scale(float* y, float factor, std::int64_t count) { store_all(Scaled{y, factor}, y, count); }

float dot(const float* a, const float* b, std::int64_t count) { return combine_all(ProductOf(a, b), count); }

Normalized norm(const float* x, const float* weight, const float* bias, float* y, std::int64_t width) {
  const auto count = static_cast<float>(width);
  Normalized of{combine_all(Value(x), width) / count, 0};
  const float variance = combine_all(SquaredDistance(x, of.mean), width) / count;
  of.reciprocal_deviation = 1.0f / std::sqrt(variance + 1e-5f);
  store_all(NormOutput{x, weight, bias, of}, y, width);
  return of;
}

void norm_backward(const float* x, const float* weight, const Normalized& of, const float* dy, float* dx,
                   std::int64_t width) {
  const auto count = static_cast<float>(width);
  const Projection terms(x, weight, dy, of);
  const float mean = combine_all(ProductOf(dy, weight), width) / count;
  const float projected = combine_all(terms, width) / count;
  store_all(NormGradient{terms, mean, projected, dx}, dx, width);
}

void norm_backward_weights(const float* x, const Normalized& of, const float* dy, float* dw, std::int64_t width) {
  store_all(NormWeightGradient{x, dy, dw, of}, dw, width);
}

void gelu(Gelu kind, const float* x, float* y, std::int64_t count) {
  if (kind == Gelu::Exact) return store_all(GeluOutput<Gelu::Exact>{x}, y, count);
  store_all(GeluOutput<Gelu::Tanh>{x}, y, count);
}

void gelu_backward(Gelu kind, const float* x, const float* dy, float* dx, std::int64_t count) {
  if (kind == Gelu::Exact) return store_all(GeluGradient<Gelu::Exact>{x, dy}, dx, count);
  store_all(GeluGradient<Gelu::Tanh>{x, dy}, dx, count);
}

float highest(const float* scores, std::int64_t seen, float factor, float before) {
  return std::max(before, combine_all(Highest{scores, factor}, seen));
}

float exponentiate(float* scores, std::int64_t seen, std::int64_t width, float factor, float highest_score) {
  store_all(Exponential{scores, factor, highest_score}, scores, seen);
  std::fill(scores + seen, scores + width, 0.0f);
  return combine_all(Value(scores), seen);
}

void softmax_backward(const float* probabilities, float* slopes, std::int64_t width, float delta, float factor) {
  store_all(ScoreSlope{probabilities, slopes, delta, factor}, slopes, width);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace wreath::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wreath::training {

namespace {
HWY_EXPORT(add);
HWY_EXPORT(scale);
HWY_EXPORT(dot);
HWY_EXPORT(norm);
HWY_EXPORT(norm_backward);
HWY_EXPORT(norm_backward_weights);
HWY_EXPORT(gelu);
HWY_EXPORT(gelu_backward);
HWY_EXPORT(highest);
HWY_EXPORT(exponentiate);
HWY_EXPORT(softmax_backward);
}  // namespace

void add_row(float* y, const float* x, std::int64_t count) { HWY_DYNAMIC_DISPATCH(add)(y, x, count); }
void scale_row(float* y, float factor, std::int64_t count) { HWY_DYNAMIC_DISPATCH(scale)(y, factor, count); }
float dot_rows(const float* a, const float* b, std::int64_t count) { return HWY_DYNAMIC_DISPATCH(dot)(a, b, count); }

Normalized layer_norm_row(const float* x, const float* weight, const float* bias, float* y, std::int64_t width) {
  return HWY_DYNAMIC_DISPATCH(norm)(x, weight, bias, y, width);
}
void layer_norm_row_backward(const float* x, const float* weight, const Normalized& of, const float* y_gradient,
                             float* x_gradient, std::int64_t width) {
  HWY_DYNAMIC_DISPATCH(norm_backward)(x, weight, of, y_gradient, x_gradient, width);
}
void layer_norm_row_backward_weights(const float* x, const Normalized& of, const float* y_gradient,
                                     float* weight_gradient, std::int64_t width) {
  HWY_DYNAMIC_DISPATCH(norm_backward_weights)(x, of, y_gradient, weight_gradient, width);
}

void gelu_row(Gelu kind, const float* x, float* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(gelu)(kind, x, y, count);
}
void gelu_row_backward(Gelu kind, const float* x, const float* y_gradient, float* x_gradient, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(gelu_backward)(kind, x, y_gradient, x_gradient, count);
}

float highest_score(const float* scores, std::int64_t seen, float factor, float before) {
  return HWY_DYNAMIC_DISPATCH(highest)(scores, seen, factor, before);
}
float exponentials(float* scores, std::int64_t seen, std::int64_t width, float factor, float highest) {
  return HWY_DYNAMIC_DISPATCH(exponentiate)(scores, seen, width, factor, highest);
}
void softmax_row_backward(const float* probabilities, float* slopes, std::int64_t width, float delta, float factor) {
  HWY_DYNAMIC_DISPATCH(softmax_backward)(probabilities, slopes, width, delta, factor);
}

}  // namespace wreath::training
#endif  // HWY_ONCE
