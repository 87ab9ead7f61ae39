// Optimizers that step the pieces of parameters this rank owns, and the norm that gradients are clipped by.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "training/compute/memory.hpp"
#include "training/mesh/mesh.hpp"
#include "training/parameters/strategy.hpp"

namespace wreath::training {

// State is as large as the pieces it was made for, which keep their order.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Gradients are multiplied by gradient_factor (clipping) on their way.
  virtual void step(std::span<const Piece> pieces, float learning_rate, float gradient_factor) = 0;
  // Steps taken, and this rank's moments: element i belongs to element i of the pieces laid end to end. For
  // checkpoints.
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
  // Moments lie in files in this folder (NVMe), which a step reads ahead of where it is; empty: in memory.
  std::string offload_folder;
};
// Loshchilov, Hutter, "Decoupled weight decay regularization", 2019.
std::unique_ptr<Optimizer> make_adamw(std::span<const Piece> pieces, const AdamWOptions& options,
                                      MemoryAccounting& memory);
// value -= learning_rate * gradient; no state.
std::unique_ptr<Optimizer> make_sgd();

// The Euclidean norm of the whole model's gradient, over all ranks of the mesh that hold parts of it; every parameter
// counts once. Squares are added as integers, so that the bits of the norm depend on the gradients alone, not on
// where they lie (docs/decisions/0011). Two all_reduces: of the highest magnitude, and of the sums.
double gradient_norm(std::span<const Piece> pieces, bool divided, Mesh& mesh);

}  // namespace wreath::training
