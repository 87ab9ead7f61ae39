// Whole weights on every rank: DistributedDataParallel, and ZeroRedundancyOptimizer of stages 1 and 2.
#pragma once

#include <memory>
#include <vector>

#include "training/data_parallel/gradient_reducer.hpp"

namespace wreath::training {

// Weights lie in flat memory, bucket by bucket, and this rank's optimizer steps its share of each bucket: all of it
// (stage 0), or one of as many parts as there are replicas, which finish_step gathers in place from all ranks.
class ReplicatedWeights final : public DataParallel {
 public:
  // `layout` has been made for `share.parts`, and `reducer` for the layout.
  ReplicatedWeights(std::unique_ptr<Layout> layout, std::unique_ptr<GradientReducer> reducer, Group& replicas,
                    const Share& share, MemoryAccounting& memory, std::uint64_t seed);
  ~ReplicatedWeights() override;
  void begin_step(int micro_batches) override { reducer_->begin_step(micro_batches); }
  void before_forward(int /*unit*/) override {}
  void after_forward(int /*unit*/) override {}
  void before_backward(int unit) override { reducer_->before_backward(unit); }
  void after_backward(int /*unit*/) override {}
  void gradients_ready(int unit) override { reducer_->gradients_ready(unit); }
  void finish_backward() override { reducer_->finish_backward(); }
  std::span<const Piece> pieces() override { return pieces_; }
  bool divided() const override { return share_.parts > 1; }
  void finish_step() override;
  void set_synchronizing(bool on) override { reducer_->set_synchronizing(on); }

 private:
  std::unique_ptr<Layout> layout_;
  std::unique_ptr<GradientReducer> reducer_;
  Group& replicas_;
  Share share_;
  Buffer<float> weights_;
  std::vector<Piece> pieces_;
};

}  // namespace wreath::training
