// Whole weights on every rank: DistributedDataParallel, and ZeroRedundancyOptimizer of stages 1 and 2.
#pragma once

#include <memory>
#include <vector>

#include "training/compute/memory.hpp"
#include "training/parameters/gradient_reducer.hpp"

namespace wreath::training {

// Weights lie in flat memory, bucket by bucket, and this rank's optimizer steps its share of each bucket: all of it
// (stage 0), or one of as many parts as there are replicas, which finish_step gathers in place from all ranks. What the
// weights are held in is the subclass's.
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
  // `values` are this rank's share of the bucket: what its optimizer steps.
  void add_own(const Bucket& bucket, std::span<float> values);
  // The optimizer has stepped: brings its values to where gather_call() takes them from.
  virtual void take_stepped(const Bucket& /*bucket*/) {}
  // all_gather of the bucket in place; only where weights are divided.
  virtual Call gather_call(const Bucket& bucket) = 0;

  std::unique_ptr<Layout> layout_;
  Share share_;

 private:
  std::unique_ptr<GradientReducer> reducer_;
  Group& replicas_;
  std::vector<Piece> pieces_;
};

// float32.
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
