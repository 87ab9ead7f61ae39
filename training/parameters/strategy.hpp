// DataParallel decides which ranks hold weights, gradients and optimizer state, and when these are communicated, among
// ranks that see different data. DistributedDataParallel and the stages of ZeRO implement it; the model and the
// optimizer use only this interface.
#pragma once

#include <cstdint>
#include <span>

#include "training/parameters/parameter.hpp"

namespace wreath::training {

// The elements of one parameter that this rank's optimizer steps: [begin, begin + value.size()) of its local part.
struct Piece {
  const Parameter* parameter = nullptr;
  std::int64_t begin = 0;
  std::span<float> value;
  std::span<const float> gradient;
};

// A model is divided into units (the embedding, each block, the head), whose weights are used together. A strategy
// belongs to one rank and one thread. Calls that communicate are made in the same order on all ranks of the group and
// throw Exception.
//
// A step begins with begin_step(). For each micro-batch the stages call before_forward, after_forward, before_backward,
// after_backward and gradients_ready of each of their units. Then come finish_backward(), the optimizer, which writes
// pieces(), and finish_step() or skip_step(). The strategies of make_data_parallel make their callers keep this order
// (step_order.hpp).
class DataParallel {
 public:
  virtual ~DataParallel() = default;

  // Begins a step with zero gradients. Each unit's gradients_ready will be called `micro_batches` times, and after the
  // last one its gradients may be reduced.
  virtual void begin_step(int micro_batches) = 0;
  // Places the unit's weights at Parameter::value until after_*.
  virtual void before_forward(int unit) = 0;
  virtual void after_forward(int unit) = 0;
  // Places, besides the weights, the unit's gradients at Parameter::gradient until gradients_ready.
  virtual void before_backward(int unit) = 0;
  // Tells that the unit's weights are not read any more.
  virtual void after_backward(int unit) = 0;
  // Tells that the micro-batch's shares are added to all gradients of the unit.
  virtual void gradients_ready(int unit) = 0;
  // Returns when the gradients of pieces() are the mean over the group. Tied and partial gradients (Parameter) have
  // been summed first.
  virtual void finish_backward() = 0;
  // Returns this rank's pieces. All ranks of the group together have every element once; where weights are not divided,
  // one rank has.
  virtual std::span<const Piece> pieces() = 0;
  // Returns whether other ranks of the group step the elements that this one does not. Sums over pieces (the gradient's
  // norm) then go over the group, too.
  virtual bool divided() const = 0;
  // Copies the values of pieces(), which the optimizer has written, to all ranks that need them.
  virtual void finish_step() = 0;
  // Ends a step whose values did not change, since its gradients overflowed and were not used.
  virtual void skip_step() {}
  // Switches the reduction of gradients on or off. NoSync calls it.
  virtual void set_synchronizing(bool on) = 0;
};

// Keeps gradients on this rank while it lives (stages 0 and 1). They add up from one begin_step .. finish_backward to
// the next. The first round that ends without it reduces the sum. Stages 2 and 3 keep no whole gradients: each round is
// reduced, and the own parts add up.
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
