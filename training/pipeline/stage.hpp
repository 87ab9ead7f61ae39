// Stage is a part of the model that one rank of a pipeline runs, micro-batch by micro-batch.
#pragma once

#include <cstddef>
#include <span>

namespace wreath::training {

// Takes and gives boundary_count() float32 values a micro-batch: activations forward, their gradients backward. The
// first stage of a model has no input and the last no output, and those spans are empty. The last stage keeps the loss.
// Micro-batches are in flight side by side, each numbered 0 .. n - 1 within its step.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual std::size_t boundary_count() const = 0;
  virtual void forward(int micro_batch, std::span<const float> input, std::span<float> output) = 0;
  // Computes the gradient of the input. Keeps the values for the weights' gradients until backward_weights.
  virtual void backward(int micro_batch, std::span<const float> output_gradient, std::span<float> input_gradient) = 0;
  // Adds the micro-batch's share to the weights' gradients and frees all that was kept for it.
  virtual void backward_weights(int micro_batch) = 0;
  // Does both, for schedules that do not part them, with the same bits. A stage may go layer by layer, so that the
  // weights' gradients of its last layers are ready before its first layers run.
  virtual void backward_whole(int micro_batch, std::span<const float> output_gradient,
                              std::span<float> input_gradient) {
    backward(micro_batch, output_gradient, input_gradient);
    backward_weights(micro_batch);
  }
};

}  // namespace wreath::training
