// This file has AdamW: its moments, in memory or in files, and the factors of a step.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "training/compute/compute.hpp"
#include "training/compute/optimizer_steps.hpp"
#include "training/optimizer/optimizer.hpp"
#include "training/parameters/offload.hpp"

namespace wreath::training {

namespace {

// The number of elements between two requests to read ahead in files: 4 MiB of each moment.
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
  // Steps one piece, whose moments begin at `begin`. It reads the moments of the next rows ahead, and releases those of
  // the last ones.
  void step_piece(const AdamWFactors& factors, const Piece& piece, std::size_t begin) {
    const std::size_t at_once = compute_of(piece.value) == nullptr ? kRowsAtOnce : piece.value.size();
    for (std::size_t at = 0; at < piece.value.size(); at += at_once) {
      const std::size_t count = std::min(at_once, piece.value.size() - at);
      const std::span<float> first = first_.span().subspan(begin + at, count);
      const std::span<float> second = second_.span().subspan(begin + at, count);
      const std::size_t next = begin + at + count;
      const std::size_t ahead = std::min(kRowsAtOnce, first_.size() - next);
      first_.read_ahead(first_.span().subspan(next, ahead));
      second_.read_ahead(second_.span().subspan(next, ahead));
      adamw_step(factors, {piece.value.data() + at, piece.gradient.data() + at, first.data(), second.data(), count});
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
