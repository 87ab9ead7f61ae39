// Adds noise and faults to runs.
#include "tests/training/parity/reference.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "training/random/philox.hpp"

namespace wreath::gpt::test {

void use_plain_descent(TrainOptions& options) {
  options.optimizer = OptimizerKind::Sgd;
  options.clip = 0;
  options.learning_rate = 0.5f;
  options.lowest_learning_rate = 0.5f;
}

double spread_around(const TrainingRun& alone, const TrainOptions& options) {
  double worst = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const TrainingRun noisy = train(options, std::ssize(alone.losses), [seed](Trainer& trainer) {
      trainer.observe_gradients([seed, step = std::uint32_t{0}](std::span<const training::Piece> pieces) mutable {
        const training::RandomStream stream(seed, "noise", step++);
        std::uint64_t index = 0;
        for (const training::Piece& piece : pieces) {
          for (const float& gradient : piece.gradient) {
            const std::uint64_t draw = stream.below(3, index++);
            if (draw < 2) const_cast<float&>(gradient) = std::nextafter(gradient, draw == 0 ? -INFINITY : INFINITY);
          }
        }
      });
    });
    worst = std::max(worst, largest_difference(alone.losses, noisy.losses));
  }
  return worst;
}

void keep_a_layer_norm_apart(Trainer& trainer) {
  training::Parameter* weight = trainer.parameters().find("h.1.ln_1.weight");
  const auto own = std::make_shared<std::vector<float>>(weight->gradient.size());
  weight->gradient = *own;
  trainer.observe_gradients([weight, own](std::span<const training::Piece> pieces) {
    for (const training::Piece& piece : pieces) {
      if (piece.parameter != weight) continue;
      std::copy(own->begin(), own->end(), const_cast<float*>(piece.gradient.data()));
    }
    std::fill(own->begin(), own->end(), 0.0f);
  });
}

void take_sums_for_means(Trainer& trainer) {
  trainer.observe_gradients([](std::span<const training::Piece> pieces) {
    for (const training::Piece& piece : pieces) {
      for (const float& gradient : piece.gradient) const_cast<float&>(gradient) *= 2;
    }
  });
}

}  // namespace wreath::gpt::test
