// This file declares optimizers that step the pieces of parameters that this rank owns, and the norm that gradients are
// clipped by.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "training/compute/memory.hpp"
#include "training/mesh/mesh.hpp"
#include "training/parameters/strategy.hpp"

namespace wreath::training {

// Steps pieces. Its state is as large as the pieces that it was made for, which keep their order.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Steps the pieces. It multiplies gradients by gradient_factor (clipping).
  virtual void step(std::span<const Piece> pieces, float learning_rate, float gradient_factor) = 0;
  // A moment of this rank, for checkpoints. Element i belongs to element i of the pieces laid end to end.
  struct Moment {
    const char* name;  // "exp_avg"
    std::span<float> values;
  };
  virtual std::vector<Moment> moments() = 0;
  virtual std::int64_t steps() const = 0;
  virtual void set_steps(std::int64_t steps) = 0;
};

struct AdamWOptions {
  float beta1 = 0.9f;
  float beta2 = 0.99f;
  float epsilon = 1e-8f;
  float weight_decay = 0.1f;  // of parameters that decay
  // The folder of files for moments (NVMe), which a step reads ahead. Empty: moments lie in memory.
  std::string offload_folder;
};
// Makes AdamW (Loshchilov, Hutter, "Decoupled weight decay regularization", 2019).
std::unique_ptr<Optimizer> make_adamw(std::span<const Piece> pieces, const AdamWOptions& options,
                                      MemoryAccounting& memory);
// Makes plain gradient descent, value -= learning_rate * gradient, which has no state.
std::unique_ptr<Optimizer> make_sgd();

// Returns the Euclidean norm of the whole model's gradient, over all ranks of the mesh that hold parts of it. Every
// parameter counts once. Squares are added as integers, so the bits of the norm depend on the gradients alone, not on
// their places (docs/decisions/0011). It makes two all_reduces: of the highest magnitude, and of the sums.
double gradient_norm(std::span<const Piece> pieces, bool divided, Mesh& mesh);

}  // namespace wreath::training
