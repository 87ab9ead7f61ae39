// BucketReducer keeps whole gradients in buckets and reduces each bucket once when it is complete (stages 0 and 1).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "training/compute/memory.hpp"
#include "training/parameters/gradient_reducer.hpp"

namespace wreath::training {

// Gives gradients views into the buckets' memory. Buckets start in their own order, in whatever order they get ready.
// Ranks whose steps used different units so make the same calls; gradients that no unit used take part with zeros. A
// `share` of one part means all_reduce (stage 0). A share of as many parts as the group has ranks means reduce_scatter
// in place (stage 1).
class BucketReducer final : public GradientReducer {
 public:
  BucketReducer(const Layout& layout, const DataParallelGroups& groups, MemoryAccounting& memory,
                const DataParallelOptions& options, const Share& share);
  ~BucketReducer() override;
  void begin_step(int micro_batches) override;
  void before_backward(int unit) override;
  void gradients_ready(int unit) override;
  void finish_backward() override;
  void set_synchronizing(bool on) override { synchronizing_ = on; }
  std::span<const float> own(const Bucket& bucket) const override;

 private:
  bool is_ready(const Bucket& bucket) const;
  // Starts buckets in their order, up to the first that `wanted` refuses.
  void start_while(const std::function<bool(const Bucket&)>& wanted);
  void start(const Bucket& bucket);
  void finish_all();

  const Layout& layout_;
  DataParallelGroups groups_;
  MemoryAccounting& memory_;
  CommunicationHook hook_;
  std::optional<DataType> half_;
  Reduction reduction_;
  Share share_;
  bool overlap_;
  Buffer<float> gradients_;
  bool synchronizing_ = true;
  // Gradients of rounds that were not reduced are kept.
  bool adds_up_ = false;
  int micro_batches_ = 0;
  std::vector<int> ready_;  // by unit: micro-batches
  std::size_t next_ = 0;    // the bucket to start
  // Each function ends one call.
  std::vector<std::function<void()>> in_flight_;
};

}  // namespace wreath::training
