// Whole weights on every rank.
#include "training/data_parallel/replicated_weights.hpp"

#include <utility>

#include "training/data_parallel/wait_all.hpp"

namespace wreath::training {

ReplicatedWeights::ReplicatedWeights(std::unique_ptr<Layout> layout, std::unique_ptr<GradientReducer> reducer,
                                     Group& replicas, const Share& share, MemoryAccounting& memory, std::uint64_t seed)
    : layout_(std::move(layout)),
      reducer_(std::move(reducer)),
      replicas_(replicas),
      share_(share),
      weights_(memory, MemoryTag::Parameters, layout_->size(), Contents::Undefined) {
  for (const Bucket& bucket : layout_->buckets()) {
    const std::span<float> weights = bucket.of(weights_.span());
    initialize(bucket, 0, weights, seed);
    for (const Slot& slot : bucket.slots) slot.parameter->value = slot.of(weights);
    add_pieces(bucket, share_.begin(bucket), weights.subspan(share_.begin(bucket), share_.count(bucket)),
               reducer_->own(bucket), pieces_);
  }
}

ReplicatedWeights::~ReplicatedWeights() {
  for (const Bucket& bucket : layout_->buckets()) {
    for (const Slot& slot : bucket.slots) slot.parameter->value = {};
  }
}

void ReplicatedWeights::finish_step() {
  if (!divided()) return;
  std::vector<Pending> gathers;
  for (const Bucket& bucket : layout_->buckets()) {
    const std::span<float> whole = bucket.of(weights_.span());
    const std::span<const float> own = whole.subspan(share_.begin(bucket), share_.count(bucket));
    gathers.push_back(replicas_.start(Group::call_of(Collective::AllGather, own, whole, own.size(), {})));
  }
  wait_all(gathers);
}

}  // namespace wreath::training
