// ShardedGradients keeps gradients in transient buckets, one for each unit, of which each rank keeps its share (stages
// 2 and 3).
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "training/parameters/gradient_reducer.hpp"
#include "training/parameters/half_reduction.hpp"

namespace wreath::training {

// The groups over which state is divided. State is divided over `shards`. Where there is `replicate`, it repeats each
// shard's weights, and divides the shard's gradients and optimizer state again.
struct ShardGroups {
  Group& shards;
  Group* replicate = nullptr;
};

// Gives a unit's bucket memory (MemoryTag::Buckets) from before_backward until its gradients are reduced. Only this
// rank's share stays (MemoryTag::Gradients).
//
// Over several micro-batches each one's bucket is reduced by itself, and the means are added in the order of
// gradients_ready. The result is the sum over micro-batches of means over ranks. Stages 0 and 1 form the mean over
// ranks of sums over micro-batches. The bits are the same with one micro-batch, and otherwise the same up to rounding.
// Gradients that are summed earlier (partial, tied) stay whole in buckets' memory until finish_backward, and are
// reduced once a step.
//
// All ranks use the same units in the same order. A unit that none used has zero gradients, and no call is made.
class ShardedGradients final : public GradientReducer {
 public:
  // `layout` is by unit, for buckets of share.parts parts.
  ShardedGradients(const Layout& layout, const DataParallelGroups& groups, const ShardGroups& scatter,
                   MemoryAccounting& memory, const DataParallelOptions& options, const Share& share);
  ~ShardedGradients() override;
  void begin_step(int micro_batches) override;
  void before_backward(int unit) override;
  void gradients_ready(int unit) override;
  void finish_backward() override;
  void set_synchronizing(bool on) override { synchronizing_ = on; }
  std::span<const float> own(const Bucket& bucket) const override;

 private:
  struct Move {
    std::size_t bucket = 0;
    std::span<float> gradients;
    // The memory of the gradients, where they have their own.
    Buffer<float> memory;
    Pending pending;
    HalfReduction half;  // instead of pending
  };
  bool is_late(std::size_t index) const { return layout_.buckets()[index].earlier_sum != EarlierSum::None; }
  std::span<float> late(const Bucket& bucket) const {
    return late_.span().subspan(bucket.begin - late_begin_, bucket.padded);
  }
  void provide(std::size_t index);
  bool is_complete(std::size_t index) const;
  void start(std::size_t index);
  HalfReduction start_half(std::span<float> gradients, Group& group) const;
  void finish(Move& move);
  void finish_first();

  const Layout& layout_;
  DataParallelGroups groups_;
  ShardGroups scatter_;
  MemoryAccounting& memory_;
  std::optional<DataType> half_;
  Reduction reduction_;
  Share share_;
  bool overlap_;
  // The begin, in the layout's flat memory, of the buckets that are summed earlier.
  std::size_t late_begin_;
  // The flat memory of this rank's share of each bucket.
  Buffer<float> own_;
  // The flat memory, during a step, of the whole buckets that are summed earlier.
  Buffer<float> late_;
  // The next three vectors are indexed by bucket.
  // A buffer is empty where no backward pass adds to it.
  std::vector<Buffer<float>> gradients_;
  // The number of micro-batches of this step whose reduction has started.
  std::vector<int> started_;
  // Nonzero where the own share already holds a sum to add to.
  std::vector<char> holds_sum_;
  // The next two vectors are indexed by unit.
  std::vector<int> ready_;        // micro-batches of this step
  std::vector<int> in_backward_;  // before_backward less gradients_ready
  std::deque<Move> moves_;
  bool synchronizing_ = true;
  bool adds_up_ = false;
};

}  // namespace wreath::training
