// As ReplicatedWeights (stages 0 to 2), with working weights of 2 bytes and float32 master weights.
#pragma once

#include <memory>
#include <vector>

#include "training/data_parallel/gradient_reducer.hpp"
#include "training/data_parallel/half_reduction.hpp"

namespace wreath::training {

// Working weights lie in flat memory, bucket by bucket; those of a unit in use are widened. The optimizer steps master
// weights of this rank's share; finish_step rounds them and, where they are divided, gathers the words of all ranks.
class HalfReplicatedWeights final : public DataParallel {
 public:
  // `layout` has been made for `share.parts`, and `reducer` for the layout; options.half is set.
  HalfReplicatedWeights(std::unique_ptr<Layout> layout, std::unique_ptr<GradientReducer> reducer, Group& replicas,
                        const Share& share, MemoryAccounting& memory, const DataParallelOptions& options);
  ~HalfReplicatedWeights() override;
  void begin_step(int micro_batches) override { reducer_->begin_step(micro_batches); }
  void before_forward(int unit) override { acquire(unit); }
  void after_forward(int unit) override { release(unit); }
  void before_backward(int unit) override;
  void after_backward(int unit) override { release(unit); }
  void gradients_ready(int unit) override { reducer_->gradients_ready(unit); }
  void finish_backward() override { reducer_->finish_backward(); }
  std::span<const Piece> pieces() override { return pieces_; }
  bool divided() const override { return share_.parts > 1; }
  void finish_step() override;
  void set_synchronizing(bool on) override { reducer_->set_synchronizing(on); }

 private:
  // A unit's parameters, and their values while it is used.
  struct Unit {
    struct Held {
      Parameter* parameter;
      HalfWords words;
    };
    std::vector<Held> held;
    std::size_t count = 0;
    int users = 0;
    Buffer<float> widened;
  };
  void acquire(int unit);
  void release(int unit);
  HalfWords words_of(const Bucket& bucket) const { return words_.span().subspan(bucket.begin, bucket.padded); }

  std::unique_ptr<Layout> layout_;
  std::unique_ptr<GradientReducer> reducer_;
  Group& replicas_;
  Share share_;
  MemoryAccounting& memory_;
  FloatFormat format_;
  Buffer<std::uint16_t> words_;
  Buffer<float> masters_;
  std::vector<Unit> units_;
  std::vector<Piece> pieces_;
};

}  // namespace wreath::training
