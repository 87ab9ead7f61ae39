// This file keeps whole weights on every rank.
#include "training/data_parallel/replicated_weights.hpp"

#include <utility>

#include "training/mesh/wait_all.hpp"

namespace wreath::training {

ReplicatedWeights::ReplicatedWeights(std::unique_ptr<Layout> layout, std::unique_ptr<GradientReducer> reducer,
                                     Group& replicas, const Share& share)
    : layout_(std::move(layout)), share_(share), reducer_(std::move(reducer)), replicas_(replicas) {}

void ReplicatedWeights::add_own(const Bucket& bucket, std::span<float> values) {
  add_pieces(bucket, share_.begin(bucket), values, reducer_->own(bucket), pieces_);
}

void ReplicatedWeights::finish_step() {
  std::vector<Pending> gathers;
  for (const Bucket& bucket : layout_->buckets()) {
    take_stepped(bucket);
    if (divided()) gathers.push_back(replicas_.start(gather_call(bucket)));
  }
  wait_all(gathers);
}

FloatReplicatedWeights::FloatReplicatedWeights(std::unique_ptr<Layout> layout, std::unique_ptr<GradientReducer> reducer,
                                               Group& replicas, const Share& share, MemoryAccounting& memory,
                                               std::uint64_t seed)
    : ReplicatedWeights(std::move(layout), std::move(reducer), replicas, share),
      weights_(memory, MemoryTag::Parameters, layout_->size(), Contents::Undefined) {
  for (const Bucket& bucket : layout_->buckets()) {
    const std::span<float> weights = bucket.of(weights_.span());
    initialize(bucket, 0, weights, seed);
    for (const Slot& slot : bucket.slots) slot.parameter->value = slot.of(weights);
    add_own(bucket, own(bucket));
  }
}

FloatReplicatedWeights::~FloatReplicatedWeights() {
  for (const Bucket& bucket : layout_->buckets()) {
    for (const Slot& slot : bucket.slots) slot.parameter->value = {};
  }
}

Call FloatReplicatedWeights::gather_call(const Bucket& bucket) {
  const std::span<const float> from = own(bucket);
  return Group::call_of(Collective::AllGather, from, bucket.of(weights_.span()), from.size(), {});
}

}  // namespace wreath::training
