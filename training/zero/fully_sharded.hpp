// FullyShardedDataParallel: weights divided over ranks and gathered unit by unit (stage 3).
#pragma once

#include <memory>
#include <vector>

#include "training/parameters/offload.hpp"
#include "training/zero/sharded_gradients.hpp"

namespace wreath::training {

// Between uses a rank keeps its shard of each bucket (MemoryTag::Parameters). A unit's weights are gathered before it
// is used (MemoryTag::Gathered) and dropped after; `prefetch` units ahead in the direction of the pass are gathered
// meanwhile, never more than 2. The last unit of a forward pass keeps its weights for the backward pass that begins
// with it, so that a step of one micro-batch gathers every unit twice but that one.
//
// Hybrid: a shard is repeated over `replicate`, whose ranks divide it once more among their optimizers: gradients are
// reduce-scattered over both groups, and finish_step gathers shards over `replicate`. That moves the bytes of one
// all_reduce of the shard. Sums are over shards, then over copies: bits equal those without copies where both numbers
// are powers of two.
class FullyShardedDataParallel final : public DataParallel {
 public:
  // `layout` is by unit, for buckets of share.parts parts; `gradients` has been made for it.
  FullyShardedDataParallel(std::unique_ptr<Layout> layout, std::unique_ptr<GradientReducer> gradients,
                           const ShardGroups& groups, const Share& share, MemoryAccounting& memory,
                           const DataParallelOptions& options);
  ~FullyShardedDataParallel() override;
  void begin_step(int micro_batches) override;
  void before_forward(int unit) override;
  void after_forward(int unit) override;
  void before_backward(int unit) override;
  void after_backward(int unit) override;
  void gradients_ready(int unit) override { gradients_->gradients_ready(unit); }
  void finish_backward() override;
  std::span<const Piece> pieces() override { return pieces_; }
  bool divided() const override { return share_.parts > 1; }
  void finish_step() override;
  void set_synchronizing(bool on) override { gradients_->set_synchronizing(on); }

 private:
  struct Gather {
    std::size_t bucket = 0;
    Buffer<float> weights;
    Buffer<std::uint16_t> words;  // of DataParallelOptions::half: until they are widened
    Pending pending;
  };
  struct Unit {
    bool gathered = false;  // or about to be
    bool kept = false;      // for the backward pass that comes
    int users = 0;          // calls between before_* and after_*
    std::vector<Gather> gathers;
    bool idle() const { return gathered && users == 0 && !kept; }
  };
  Unit& unit(int index) { return units_[static_cast<std::size_t>(index)]; }
  // The rank's part of the bucket among the ranks of shards.
  Share shard() const;
  std::span<float> shard_of(const Bucket& bucket) const { return shard().in_shares(bucket, shards_.span()); }
  HalfWords words_of(const Bucket& bucket) const {
    return words_.span().subspan(bucket.begin / shard().parts, shard().count(bucket));
  }
  // What of the shard this rank's optimizer steps, from its begin in elements.
  ElementRange own_of_shard(const Bucket& bucket) const {
    return {share_.begin(bucket) - shard().begin(bucket), share_.count(bucket)};
  }
  // This rank's optimizer's elements of the bucket.
  std::span<float> own(const Bucket& bucket) const;
  void narrow_own();
  Gather start_gather(std::size_t bucket);
  void gather_shards();
  void read_ahead(int index);
  void gather(int index);
  void acquire(int index);
  void release(int index);
  void prefetch(int index, int direction);
  void drop(int index);
  // All that is gathered and not in use: weights are about to change, or the next pass begins elsewhere.
  void drop_idle();

  std::unique_ptr<Layout> layout_;
  std::unique_ptr<GradientReducer> gradients_;
  ShardGroups groups_;
  Share share_;  // of the optimizer
  MemoryAccounting& memory_;
  int prefetch_;
  std::optional<DataType> half_;
  OffloadableBuffer shards_;     // with half_ the master weights of the own parts
  Buffer<std::uint16_t> words_;  // with half_ the shards
  std::vector<Unit> units_;
  std::vector<Piece> pieces_;
};

}  // namespace wreath::training
