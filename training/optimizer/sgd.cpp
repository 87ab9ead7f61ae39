// This file has plain gradient descent.
#include "training/compute/optimizer_steps.hpp"
#include "training/optimizer/optimizer.hpp"

namespace wreath::training {

namespace {

class Sgd final : public Optimizer {
 public:
  void step(std::span<const Piece> pieces, float learning_rate, float gradient_factor) override {
    ++steps_;
    for (const Piece& piece : pieces) sgd_step(piece.value, piece.gradient, learning_rate, gradient_factor);
  }
  std::vector<Moment> moments() override { return {}; }
  std::int64_t steps() const override { return steps_; }
  void set_steps(std::int64_t steps) override { steps_ = steps; }

 private:
  std::int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd() { return std::make_unique<Sgd>(); }

}  // namespace wreath::training
