// This file declares whole weights on every rank, for DistributedDataParallel and for ZeroRedundancyOptimizer of stages
// 1 and 2.
#pragma once

#include <memory>
#include <vector>

#include "training/compute/memory.hpp"
#include "training/parameters/gradient_reducer.hpp"

namespace wreath::training {

// Keeps weights in flat memory, bucket by bucket. This rank's optimizer steps its share of each bucket. In stage 0 the
// share is all of it. Otherwise it is one of as many parts as there are replicas, and finish_step gathers the parts in
// place from all ranks. The subclass decides in which format it holds the weights.
class ReplicatedWeights : public DataParallel {
 public:
  void begin_step(int micro_batches) override { reducer_->begin_step(micro_batches); }
  void before_backward(int unit) override { reducer_->before_backward(unit); }
  void gradients_ready(int unit) override { reducer_->gradients_ready(unit); }
  void finish_backward() override { reducer_->finish_backward(); }
  std::span<const Piece> pieces() override { return pieces_; }
  bool divided() const override { return share_.parts > 1; }
  void finish_step() override;
  void set_synchronizing(bool on) override { reducer_->set_synchronizing(on); }

 protected:
  // `layout` has been made for `share.parts`, and `reducer` for the layout.
  ReplicatedWeights(std::unique_ptr<Layout> layout, std::unique_ptr<GradientReducer> reducer, Group& replicas,
                    const Share& share);
  // Adds the pieces of this rank's share of the bucket. `values` are the values that its optimizer steps.
  void add_own(const Bucket& bucket, std::span<float> values);
  // Is called after the optimizer's step. Copies its values to where gather_call() takes them from.
  virtual void take_stepped(const Bucket& /*bucket*/) {}
  // Returns the all_gather of the bucket in place. It is called only where weights are divided.
  virtual Call gather_call(const Bucket& bucket) = 0;

  std::unique_ptr<Layout> layout_;
  Share share_;

 private:
  std::unique_ptr<GradientReducer> reducer_;
  Group& replicas_;
  std::vector<Piece> pieces_;
};

// Keeps float32 weights.
class FloatReplicatedWeights final : public ReplicatedWeights {
 public:
  FloatReplicatedWeights(std::unique_ptr<Layout> layout, std::unique_ptr<GradientReducer> reducer, Group& replicas,
                         const Share& share, MemoryAccounting& memory, std::uint64_t seed);
  ~FloatReplicatedWeights() override;
  void before_forward(int /*unit*/) override {}
  void after_forward(int /*unit*/) override {}
  void after_backward(int /*unit*/) override {}

 private:
  std::span<float> own(const Bucket& bucket) const {
    return bucket.of(weights_.span()).subspan(share_.begin(bucket), share_.count(bucket));
  }
  Call gather_call(const Bucket& bucket) override;
  Buffer<float> weights_;
};

}  // namespace wreath::training
