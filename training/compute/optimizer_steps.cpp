// This file has the optimizers' passes over weights, compiled once per instruction set (Highway).
#include "training/compute/optimizer_steps.hpp"

#include <cstddef>

#include "training/compute/compute.hpp"
#include "training/compute/kernels/kernels.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "training/compute/optimizer_steps.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace wreath::training {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Updates one vector or, with a tag of one lane, one element. Every operation rounds alone, so both give the same bits.
template <class D>
void adamw_at(D d, const AdamWFactors& f, const AdamWRows& rows, std::size_t i) {
  const auto set = [&](float value) { return hn::Set(d, value); };
  const auto gradient = hn::Mul(hn::LoadU(d, rows.gradient + i), set(f.gradient));
  const auto first = hn::LoadU(d, rows.first + i);
  const auto new_first = hn::Add(hn::Mul(first, set(f.beta1)), hn::Mul(gradient, set(f.one_less_beta1)));
  const auto second = hn::LoadU(d, rows.second + i);
  const auto squared = hn::Mul(hn::Mul(gradient, gradient), set(f.one_less_beta2));
  const auto new_second = hn::Add(hn::Mul(second, set(f.beta2)), squared);
  hn::StoreU(new_first, d, rows.first + i);
  hn::StoreU(new_second, d, rows.second + i);
  const auto denominator = hn::Add(hn::Div(hn::Sqrt(new_second), set(f.second_correction_root)), set(f.epsilon));
  const auto decayed = hn::Mul(hn::LoadU(d, rows.value + i), set(f.decay));
  const auto update = hn::Mul(hn::Div(new_first, denominator), set(f.step_size));
  hn::StoreU(hn::Sub(decayed, update), d, rows.value + i);
}

void adamw_rows(const AdamWFactors& factors, const AdamWRows& rows) {
  const hn::ScalableTag<float> d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= rows.count; i += hn::Lanes(d)) adamw_at(d, factors, rows, i);
  for (; i < rows.count; ++i) adamw_at(hn::CappedTag<float, 1>(), factors, rows, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace wreath::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wreath::training {

namespace {
HWY_EXPORT(adamw_rows);
}  // namespace

void adamw_step(const AdamWFactors& factors, const AdamWRows& rows) {
  if (Compute* const on = compute_of(static_cast<const void*>(rows.value))) {
    const AdamWRows there{on->at(rows.value), on->at(rows.gradient), on->at(rows.first), on->at(rows.second),
                          rows.count};
    return on->launch_elements(AdamWRun{factors, there}, rows.count);
  }
  HWY_DYNAMIC_DISPATCH(adamw_rows)(factors, rows);
}

void sgd_step(std::span<float> value, std::span<const float> gradient, float rate, float factor) {
  if (Compute* const on = compute_of(value)) {
    return on->launch_elements(SgdRun{on->at(value), on->at(gradient), value.size(), rate, factor}, value.size());
  }
  for (std::size_t i = 0; i < value.size(); ++i) value[i] -= rate * (factor * gradient[i]);
}

}  // namespace wreath::training
#endif  // HWY_ONCE
