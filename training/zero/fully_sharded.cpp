// This file gathers weights before a unit is used and frees them after.
#include "training/zero/fully_sharded.hpp"

#include <algorithm>
#include <utility>

#include "training/mesh/wait_all.hpp"

namespace wreath::training {

namespace {
constexpr int kGathersInFlight = 2;
}

FullyShardedDataParallel::FullyShardedDataParallel(std::unique_ptr<Layout> layout,
                                                   std::unique_ptr<GradientReducer> gradients,
                                                   const ShardGroups& groups, const Share& share,
                                                   MemoryAccounting& memory, const DataParallelOptions& options)
    : layout_(std::move(layout)),
      gradients_(std::move(gradients)),
      groups_(groups),
      share_(share),
      memory_(memory),
      prefetch_(options.prefetch),
      half_(options.half),
      shards_(memory, half_ ? MemoryTag::Optimizer : MemoryTag::Parameters,
              layout_->size() / (half_ ? share_ : shard()).parts, options.offload_folder),
      units_(static_cast<std::size_t>(layout_->units())) {
  if (half_) words_ = Buffer<std::uint16_t>(memory, MemoryTag::Parameters, layout_->size() / shard().parts);
  for (const Bucket& bucket : layout_->buckets()) {
    if (half_) {
      const Buffer<float> whole(memory, MemoryTag::Workspace, shard().count(bucket), Contents::Undefined);
      initialize(bucket, shard().begin(bucket), whole.span(), options.seed);
      narrow(*half_, whole.span(), words_of(bucket));
      initialize(bucket, share_.begin(bucket), own(bucket), options.seed);
    } else {
      initialize(bucket, shard().begin(bucket), shard_of(bucket), options.seed);
    }
    add_pieces(bucket, share_.begin(bucket), own(bucket), gradients_->own(bucket), pieces_);
  }
}

std::span<float> FullyShardedDataParallel::own(const Bucket& bucket) const {
  if (half_) return share_.in_shares(bucket, shards_.span());
  const ElementRange own = own_of_shard(bucket);
  return shard_of(bucket).subspan(own.begin, own.count);
}

void FullyShardedDataParallel::narrow_own() {
  for (const Bucket& bucket : layout_->buckets()) {
    const ElementRange place = own_of_shard(bucket);
    narrow(*half_, own(bucket), words_of(bucket).subspan(place.begin, place.count));
  }
}

FullyShardedDataParallel::~FullyShardedDataParallel() {
  for (int i = 0; i < layout_->units(); ++i) {
    try {
      drop(i);
    } catch (const Exception&) {
    }
  }
}

Share FullyShardedDataParallel::shard() const {
  return {static_cast<std::size_t>(groups_.shards.rank()), static_cast<std::size_t>(groups_.shards.ranks())};
}

void FullyShardedDataParallel::begin_step(int micro_batches) {
  drop_idle();
  gradients_->begin_step(micro_batches);
}

void FullyShardedDataParallel::before_forward(int unit) {
  for (const int used : layout_->used_by(unit)) acquire(used);
  prefetch(unit, 1);
}

void FullyShardedDataParallel::after_forward(int index) {
  const bool last = index + 1 == layout_->units();
  for (const int used : layout_->used_by(index)) {
    if (last) unit(used).kept = true;
    release(used);
  }
}

void FullyShardedDataParallel::before_backward(int index) {
  for (const int used : layout_->used_by(index)) {
    acquire(used);
    if (index + 1 == layout_->units()) unit(used).kept = false;
  }
  prefetch(index, -1);
  gradients_->before_backward(index);
}

void FullyShardedDataParallel::after_backward(int unit) {
  for (const int used : layout_->used_by(unit)) release(used);
}

void FullyShardedDataParallel::finish_backward() {
  gradients_->finish_backward();
  drop_idle();
}

void FullyShardedDataParallel::finish_step() {
  drop_idle();
  if (half_) narrow_own();
  if (groups_.replicate != nullptr) gather_shards();
  shards_.let_go(shards_.span());
}

// Gathers the shards, of which each copy's optimizer has stepped a part.
void FullyShardedDataParallel::gather_shards() {
  std::vector<Pending> gathers;
  for (const Bucket& bucket : layout_->buckets()) {
    const ElementRange place = own_of_shard(bucket);
    if (half_) {
      const HalfWords whole = words_of(bucket);
      gathers.push_back(groups_.replicate->start(
          half_call(*half_, Collective::AllGather, whole.subspan(place.begin, place.count), whole)));
    } else {
      const std::span<float> whole = shard_of(bucket);
      const std::span<const float> own = whole.subspan(place.begin, place.count);
      gathers.push_back(groups_.replicate->start(Group::call_of(Collective::AllGather, own, whole, own.size(), {})));
    }
  }
  wait_all(gathers);
}

void FullyShardedDataParallel::gather(int index) {
  Unit& unit = this->unit(index);
  if (std::exchange(unit.gathered, true)) return;
  for (const std::size_t i : layout_->of_unit(index)) unit.gathers.push_back(start_gather(i));
}

FullyShardedDataParallel::Gather FullyShardedDataParallel::start_gather(std::size_t index) {
  const Bucket& bucket = layout_->buckets()[index];
  Gather gather;
  gather.bucket = index;
  if (half_) {
    gather.words = Buffer<std::uint16_t>(memory_, MemoryTag::Gathered, bucket.padded, Contents::Undefined);
    gather.pending =
        groups_.shards.start(half_call(*half_, Collective::AllGather, words_of(bucket), gather.words.span()));
  } else {
    gather.weights = Buffer<float>(memory_, MemoryTag::Gathered, bucket.padded, Contents::Undefined);
    const std::span<const float> own = shard_of(bucket);
    gather.pending =
        groups_.shards.start(Group::call_of(Collective::AllGather, own, gather.weights.span(), own.size(), {}));
  }
  return gather;
}

void FullyShardedDataParallel::acquire(int index) {
  gather(index);
  Unit& unit = this->unit(index);
  if (unit.users++ > 0) return;
  for (Gather& gather : unit.gathers) {
    gather.pending.wait();
    const Bucket& bucket = layout_->buckets()[gather.bucket];
    if (!gather.words.empty()) {
      gather.weights = Buffer<float>(memory_, MemoryTag::Gathered, bucket.padded, Contents::Undefined);
      widen(*half_, gather.words.span(), gather.weights.span());
      gather.words = {};
    } else if (!half_) {
      shards_.let_go(shard_of(bucket));
    }
    for (const Slot& slot : bucket.slots) slot.parameter->value = slot.of(gather.weights.span());
  }
}

void FullyShardedDataParallel::release(int index) {
  --unit(index).users;
  if (unit(index).idle()) drop(index);
}

void FullyShardedDataParallel::read_ahead(int index) {
  if (half_ || index < 0 || index >= layout_->units() || unit(index).gathered) return;
  for (const std::size_t i : layout_->of_unit(index)) shards_.read_ahead(shard_of(layout_->buckets()[i]));
}

// Gathers units ahead. Units that are gathered and not yet used count as gathers in flight. Units in also_uses are
// gathered only when they are used.
void FullyShardedDataParallel::prefetch(int index, int direction) {
  auto ahead = static_cast<int>(std::count_if(units_.begin(), units_.end(), [](const Unit& u) { return u.idle(); }));
  for (int distance = 1; distance <= prefetch_; ++distance) {
    const int next = index + direction * distance;
    if (next < 0 || next >= layout_->units() || ahead >= kGathersInFlight) break;
    if (unit(next).gathered) continue;
    gather(next);
    ++ahead;
  }
  read_ahead(index + direction * (prefetch_ + 1));
}

void FullyShardedDataParallel::drop(int index) {
  Unit& unit = this->unit(index);
  std::vector<Gather> gathers = std::exchange(unit.gathers, {});
  unit = {};
  for (Gather& gather : gathers) {
    for (const Slot& slot : layout_->buckets()[gather.bucket].slots) slot.parameter->value = {};
  }
  end_all(gathers, [](Gather& gather) { gather.pending.wait(); });
}

void FullyShardedDataParallel::drop_idle() {
  for (int i = 0; i < layout_->units(); ++i) {
    unit(i).kept = false;
    if (unit(i).idle()) drop(i);
  }
}

}  // namespace wreath::training
