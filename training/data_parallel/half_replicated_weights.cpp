// This file keeps whole weights of 2 bytes on every rank.
#include "training/data_parallel/half_replicated_weights.hpp"

#include <utility>

namespace wreath::training {

HalfReplicatedWeights::HalfReplicatedWeights(std::unique_ptr<Layout> layout, std::unique_ptr<GradientReducer> reducer,
                                             Group& replicas, const Share& share, MemoryAccounting& memory,
                                             const DataParallelOptions& options)
    : ReplicatedWeights(std::move(layout), std::move(reducer), replicas, share),
      memory_(memory),
      format_(options.half.value()),
      words_(memory, MemoryTag::Parameters, layout_->size(), Contents::Undefined),
      masters_(memory, MemoryTag::Optimizer, layout_->size() / share.parts, Contents::Undefined),
      units_(static_cast<std::size_t>(layout_->units())) {
  for (const Bucket& bucket : layout_->buckets()) {
    const Buffer<float> whole(memory, MemoryTag::Workspace, bucket.padded, Contents::Undefined);
    initialize(bucket, 0, whole.span(), options.seed);
    const HalfWords words = words_of(bucket);
    narrow(format_, whole.span(), words);
    for (const Slot& slot : bucket.slots) {
      Unit& unit = units_[static_cast<std::size_t>(slot.parameter->unit)];
      unit.held.push_back({slot.parameter, words.subspan(slot.begin, slot.count)});
      unit.count += slot.count;
    }
    const std::span<float> own = share_.in_shares(bucket, masters_.span());
    initialize(bucket, share_.begin(bucket), own, options.seed);
    add_own(bucket, own);
  }
}

HalfReplicatedWeights::~HalfReplicatedWeights() {
  for (const Unit& unit : units_) {
    for (const Unit::Held& held : unit.held) held.parameter->value = {};
  }
}

void HalfReplicatedWeights::acquire(int index) {
  for (const int used : layout_->used_by(index)) {
    Unit& unit = units_[static_cast<std::size_t>(used)];
    if (unit.users++ > 0) continue;
    unit.widened = Buffer<float>(memory_, MemoryTag::Gathered, unit.count, Contents::Undefined);
    std::size_t begin = 0;
    for (const Unit::Held& held : unit.held) {
      held.parameter->value = unit.widened.span().subspan(begin, held.words.size());
      widen(format_, held.words, held.parameter->value);
      begin += held.words.size();
    }
  }
}

void HalfReplicatedWeights::release(int index) {
  for (const int used : layout_->used_by(index)) {
    Unit& unit = units_[static_cast<std::size_t>(used)];
    if (--unit.users > 0) continue;
    for (const Unit::Held& held : unit.held) held.parameter->value = {};
    unit.widened = {};
  }
}

void HalfReplicatedWeights::before_backward(int unit) {
  acquire(unit);
  ReplicatedWeights::before_backward(unit);
}

void HalfReplicatedWeights::take_stepped(const Bucket& bucket) {
  narrow(format_, share_.in_shares(bucket, masters_.span()), own_words(bucket));
}

Call HalfReplicatedWeights::gather_call(const Bucket& bucket) {
  return half_call(format_, Collective::AllGather, own_words(bucket), words_of(bucket));
}

}  // namespace wreath::training
