// Plain gradient descent.
#include "training/compute/compute.hpp"
#include "training/kernels/kernels.hpp"
#include "training/optimizer/optimizer.hpp"

namespace wreath::training {

namespace {

class Sgd final : public Optimizer {
 public:
  void step(std::span<const Piece> pieces, float learning_rate, float gradient_factor) override {
    ++steps_;
    for (const Piece& piece : pieces) {
      if (Compute* const on = compute_of(piece.value)) {
        on->launch_elements(
            SgdRun{on->at(piece.value), on->at(piece.gradient), piece.value.size(), learning_rate, gradient_factor},
            piece.value.size());
        continue;
      }
      for (std::size_t i = 0; i < piece.value.size(); ++i) {
        piece.value[i] -= learning_rate * (gradient_factor * piece.gradient[i]);
      }
    }
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
