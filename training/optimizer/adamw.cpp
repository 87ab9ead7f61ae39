// AdamW: one pass over weights, gradients and both moments, compiled per instruction set.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "training/compute/compute.hpp"
#include "training/kernels/kernels.hpp"
#include "training/optimizer/optimizer.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "training/optimizer/adamw.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "training/optimizer/adamw_factors.hpp"
#include "training/zero/offload.hpp"

HWY_BEFORE_NAMESPACE();
namespace wreath::training {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// One vector, or with a tag of one lane one element: every operation rounds alone, so that both give the same bits.
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

// Elements between one look ahead in files and the next: 4 MiB of each moment.
constexpr std::size_t kRowsAtOnce = std::size_t{1} << 20;

std::size_t elements(std::span<const Piece> pieces) {
  std::size_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.value.size();
  return sum;
}

class AdamW final : public Optimizer {
 public:
  AdamW(std::span<const Piece> pieces, const AdamWOptions& options, MemoryAccounting& memory)
      : options_(options),
        first_(memory, MemoryTag::Optimizer, elements(pieces), options.offload_folder),
        second_(memory, MemoryTag::Optimizer, elements(pieces), options.offload_folder) {}

  void step(std::span<const Piece> pieces, float learning_rate, float gradient_factor) override {
    if (elements(pieces) != first_.size()) {
      throw Exception({ErrorCode::InvalidArgument, "AdamW was made for " + std::to_string(first_.size()) +
                                                       " elements and is to step " + std::to_string(elements(pieces))});
    }
    ++steps_;
    AdamWFactors factors = factors_of(learning_rate, gradient_factor);
    std::size_t begin = 0;
    for (const Piece& piece : pieces) {
      const double decay = piece.parameter->decays ? options_.weight_decay : 0;
      factors.decay = static_cast<float>(1 - learning_rate * decay);
      step_piece(factors, piece, begin);
      begin += piece.value.size();
    }
  }

  std::vector<Moment> moments() override { return {{"exp_avg", first_.span()}, {"exp_avg_sq", second_.span()}}; }
  std::int64_t steps() const override { return steps_; }
  void set_steps(std::int64_t steps) override { steps_ = steps; }

 private:
  // Moments of the piece begin at `begin`. Those of the next rows are read ahead, and those of the last ones let go.
  void step_piece(const AdamWFactors& factors, const Piece& piece, std::size_t begin) {
    if (Compute* const on = compute_of(piece.value)) {
      const AdamWRows rows{on->at(piece.value), on->at(piece.gradient), on->at(first_.data() + begin),
                           on->at(second_.data() + begin), piece.value.size()};
      return on->launch_elements(AdamWRun{factors, rows}, rows.count);
    }
    for (std::size_t at = 0; at < piece.value.size(); at += kRowsAtOnce) {
      const std::size_t count = std::min(kRowsAtOnce, piece.value.size() - at);
      const std::span<float> first = first_.span().subspan(begin + at, count);
      const std::span<float> second = second_.span().subspan(begin + at, count);
      const std::size_t next = begin + at + count;
      const std::size_t ahead = std::min(kRowsAtOnce, first_.size() - next);
      first_.read_ahead(first_.span().subspan(next, ahead));
      second_.read_ahead(second_.span().subspan(next, ahead));
      HWY_DYNAMIC_DISPATCH(adamw_rows)
      (factors, {piece.value.data() + at, piece.gradient.data() + at, first.data(), second.data(), count});
      first_.let_go(first);
      second_.let_go(second);
    }
  }

  AdamWFactors factors_of(float learning_rate, float gradient_factor) const {
    const double beta1 = options_.beta1;
    const double beta2 = options_.beta2;
    const auto t = static_cast<double>(steps_);
    AdamWFactors factors;
    factors.gradient = gradient_factor;
    factors.beta1 = options_.beta1;
    factors.one_less_beta1 = static_cast<float>(1 - beta1);
    factors.beta2 = options_.beta2;
    factors.one_less_beta2 = static_cast<float>(1 - beta2);
    factors.epsilon = options_.epsilon;
    factors.second_correction_root = static_cast<float>(std::sqrt(1 - std::pow(beta2, t)));
    factors.step_size = static_cast<float>(learning_rate / (1 - std::pow(beta1, t)));
    return factors;
  }

  AdamWOptions options_;
  OffloadableBuffer first_;
  OffloadableBuffer second_;
  std::int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(std::span<const Piece> pieces, const AdamWOptions& options,
                                      MemoryAccounting& memory) {
  return std::make_unique<AdamW>(pieces, options, memory);
}

}  // namespace wreath::training
#endif  // HWY_ONCE
