// Stage: a part of the model that one rank of a pipeline runs, micro-batch by micro-batch.
#pragma once

#include <cstddef>
#include <span>

namespace wreath::training {

// What enters and leaves is boundary_count() float32 values a micro-batch: activations forward, their gradients
// backward. The first stage of a model has no input and the last no output: those spans are empty (the last one keeps
// the loss). Micro-batches are in flight side by side, each numbered 0 .. n - 1 within its step.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual std::size_t boundary_count() const = 0;
  virtual void forward(int micro_batch, std::span<const float> input, std::span<float> output) = 0;
  // The gradient of the input; what the weights' gradients need is kept until backward_weights.
  virtual void backward(int micro_batch, std::span<const float> output_gradient, std::span<float> input_gradient) = 0;
  // Adds the micro-batch's share to the weights' gradients and drops all that was kept for it.
  virtual void backward_weights(int micro_batch) = 0;
  // Both, for schedules that do not part them: a stage may go layer by layer, so that the weights' gradients of its
  // last layers are ready while the first layers are still to come. The same bits.
  virtual void backward_whole(int micro_batch, std::span<const float> output_gradient,
                              std::span<float> input_gradient) {
    backward(micro_batch, output_gradient, input_gradient);
    backward_weights(micro_batch);
  }
};

}  // namespace wreath::training
