// DataParallel: who holds weights, gradients and optimizer state among ranks that see different data, and when they
// move. DistributedDataParallel and the stages of ZeRO implement it; the model and the optimizer know nothing else.
#pragma once

#include <cstdint>
#include <span>

#include "training/parameters/parameter.hpp"

namespace wreath::training {

// Elements of one parameter that this rank's optimizer steps: [begin, begin + value.size()) of its local part.
struct Piece {
  const Parameter* parameter = nullptr;
  std::int64_t begin = 0;
  std::span<float> value;
  std::span<const float> gradient;
};

// A model is divided into units (the embedding, each block, the head), whose weights are used together. One rank's; of
// one thread. Calls that communicate are made in the same order on all ranks of the group and throw Exception.
//
// A step: begin_step(); for each micro-batch the stages call before_forward, after_forward, before_backward,
// after_backward and gradients_ready of each of their units; finish_backward(); the optimizer writes pieces();
// finish_step(), or skip_step(). Those that make_data_parallel makes hold their callers to this order (step_order.hpp).
class DataParallel {
 public:
  virtual ~DataParallel() = default;

  // Gradients are zero; each unit's gradients_ready will be called `micro_batches` times, and the last one lets them
  // move.
  virtual void begin_step(int micro_batches) = 0;
  // The unit's weights are at Parameter::value until after_*.
  virtual void before_forward(int unit) = 0;
  virtual void after_forward(int unit) = 0;
  // ... and its gradients at Parameter::gradient until gradients_ready.
  virtual void before_backward(int unit) = 0;
  // Its weights are read no more.
  virtual void after_backward(int unit) = 0;
  // The micro-batch's shares are added to all gradients of the unit.
  virtual void gradients_ready(int unit) = 0;
  // Returns when the gradients of pieces() are the mean over the group. Tied and partial gradients (Parameter) have
  // been summed first.
  virtual void finish_backward() = 0;
  // Together, over all ranks of the group (over one rank where weights are not divided), all elements once.
  virtual std::span<const Piece> pieces() = 0;
  // Whether other ranks of the group step the elements that this one does not: then sums over pieces (the gradient's
  // norm) go over the group, too.
  virtual bool divided() const = 0;
  // The optimizer has written the values of pieces(): brings them to whoever needs them.
  virtual void finish_step() = 0;
  // Instead, where the values are as they were: gradients that overflowed were not used.
  virtual void skip_step() {}
  // NoSync calls it.
  virtual void set_synchronizing(bool on) = 0;
};

// While it lives, gradients stay on this rank (stages 0 and 1) and add up from one begin_step .. finish_backward to the
// next; the first round that ends without it moves the sum. Stages 2 and 3 keep no whole gradients: each round moves,
// and the own parts add up.
class NoSync {
 public:
  explicit NoSync(DataParallel& strategy) : strategy_(strategy) { strategy_.set_synchronizing(false); }
  ~NoSync() { strategy_.set_synchronizing(true); }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  DataParallel& strategy_;
};

}  // namespace wreath::training
