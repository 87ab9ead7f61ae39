// GradientReducer keeps a model's gradients from the first share added to them until they are the replicas' mean.
#pragma once

#include <cstddef>
#include <span>

#include "training/parameters/layout.hpp"

namespace wreath::training {

// The part of DataParallel (strategy.hpp) that handles gradients.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;
  virtual void begin_step(int micro_batches) = 0;
  virtual void before_backward(int unit) = 0;
  virtual void gradients_ready(int unit) = 0;
  virtual void finish_backward() = 0;
  virtual void set_synchronizing(bool on) = 0;
  // Returns, after finish_backward, the reduced gradients of the part of the bucket that this rank's optimizer steps.
  // They keep their address.
  virtual std::span<const float> own(const Bucket& bucket) const = 0;
};

// Sums partial gradients over the tensor ranks and tied ones over the embedding's. It makes one all_reduce each, where
// there are any. `flat` is the layout's flat memory from `begin` on, which holds them all.
void sum_earlier(const Layout& layout, std::size_t begin, std::span<float> flat, const DataParallelGroups& groups);

// Places the gradients of the bucket's parameters in `memory`. Where it is empty, the parameters have none.
void set_gradients(const Bucket& bucket, std::span<float> memory);

}  // namespace wreath::training
