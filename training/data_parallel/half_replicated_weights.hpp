// HalfReplicatedWeights is ReplicatedWeights (stages 0 to 2) with working weights of 2 bytes and float32 master
// weights.
#pragma once

#include <memory>
#include <vector>

#include "training/data_parallel/replicated_weights.hpp"
#include "training/parameters/half_reduction.hpp"

namespace wreath::training {

// Keeps working weights in flat memory, bucket by bucket, and widens the weights of a unit in use. The optimizer steps
// master weights of this rank's share. finish_step rounds them and, where they are divided, gathers the words of all
// ranks.
class HalfReplicatedWeights final : public ReplicatedWeights {
 public:
  // Allocates the weights. options.half must be set.
  HalfReplicatedWeights(std::unique_ptr<Layout> layout, std::unique_ptr<GradientReducer> reducer, Group& replicas,
                        const Share& share, MemoryAccounting& memory, const DataParallelOptions& options);
  ~HalfReplicatedWeights() override;
  void before_forward(int unit) override { acquire(unit); }
  void after_forward(int unit) override { release(unit); }
  void before_backward(int unit) override;
  void after_backward(int unit) override { release(unit); }

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
  void take_stepped(const Bucket& bucket) override;
  Call gather_call(const Bucket& bucket) override;
  HalfWords words_of(const Bucket& bucket) const { return words_.span().subspan(bucket.begin, bucket.padded); }
  HalfWords own_words(const Bucket& bucket) const {
    return words_of(bucket).subspan(share_.begin(bucket), share_.count(bucket));
  }

  MemoryAccounting& memory_;
  DataType format_;
  Buffer<std::uint16_t> words_;
  Buffer<float> masters_;
  std::vector<Unit> units_;
};

}  // namespace wreath::training
