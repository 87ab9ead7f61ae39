// FullyShardedDataParallel divides weights over ranks and gathers them unit by unit (stage 3).
#pragma once

#include <memory>
#include <vector>

#include "training/parameters/offload.hpp"
#include "training/zero/sharded_gradients.hpp"

namespace wreath::training {

// Keeps, between uses, this rank's shard of each bucket (MemoryTag::Parameters). A unit's weights are gathered before
// it is used (MemoryTag::Gathered) and freed after. Meanwhile `prefetch` units ahead in the direction of the pass are
// gathered, never more than 2. The last unit of a forward pass keeps its weights for the backward pass that begins with
// it. A step of one micro-batch so gathers every unit twice but that one.
//
// With hybrid sharding a shard is repeated over `replicate`, whose ranks divide it once more among their optimizers.
// Gradients are reduce-scattered over both groups, and finish_step gathers shards over `replicate`. That moves the
// bytes of one all_reduce of the shard. Sums are over shards, then over copies. Their bits equal those without copies
// where both numbers are powers of two.
class FullyShardedDataParallel final : public DataParallel {
 public:
  // `layout` is by unit, for buckets of share.parts parts, and `gradients` has been made for it.
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
    // The words of DataParallelOptions::half, until they are widened.
    Buffer<std::uint16_t> words;
    Pending pending;
  };
  struct Unit {
    bool gathered = false;  // gathered, or about to be
    // The weights are kept for the next backward pass.
    bool kept = false;
    int users = 0;  // calls between before_* and after_*
    std::vector<Gather> gathers;
    bool idle() const { return gathered && users == 0 && !kept; }
  };
  Unit& unit(int index) { return units_[static_cast<std::size_t>(index)]; }
  // Returns the rank's part of the bucket among the ranks of shards.
  Share shard() const;
  std::span<float> shard_of(const Bucket& bucket) const { return shard().in_shares(bucket, shards_.span()); }
  HalfWords words_of(const Bucket& bucket) const {
    return words_.span().subspan(bucket.begin / shard().parts, shard().count(bucket));
  }
  // Returns the part of the shard that this rank's optimizer steps, in elements from the shard's begin.
  ElementRange own_of_shard(const Bucket& bucket) const {
    return {share_.begin(bucket) - shard().begin(bucket), share_.count(bucket)};
  }
  // Returns the elements of the bucket that this rank's optimizer steps.
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
  // Frees all weights that are gathered and not in use. It is called where weights are about to change, or where the
  // next pass begins elsewhere.
  void drop_idle();

  std::unique_ptr<Layout> layout_;
  std::unique_ptr<GradientReducer> gradients_;
  ShardGroups groups_;
  Share share_;  // of the optimizer
  MemoryAccounting& memory_;
  int prefetch_;
  std::optional<DataType> half_;
  // With half_, these are the master weights of the own parts.
  OffloadableBuffer shards_;
  Buffer<std::uint16_t> words_;  // with half_: the shards
  std::vector<Unit> units_;
  std::vector<Piece> pieces_;
};

}  // namespace wreath::training
