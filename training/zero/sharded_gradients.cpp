// This file gives gradients memory, reduces them, and frees the memory.
#include "training/zero/sharded_gradients.hpp"

#include <algorithm>
#include <utility>

#include "src/base/planted_fault.hpp"
#include "training/compute/compute.hpp"
#include "training/compute/layers.hpp"

namespace wreath::training {

namespace {

// The number of buckets whose reduction runs while backward fills the next.
constexpr std::size_t kMovesInFlight = 2;

std::size_t begin_of_late(const Layout& layout) {
  for (const Bucket& bucket : layout.buckets()) {
    if (bucket.earlier_sum != EarlierSum::None) return bucket.begin;
  }
  return layout.size();
}

Call scatter_call(std::span<float> whole, const Group& group, const Reduction& reduction) {
  const std::size_t count = whole.size() / static_cast<std::size_t>(group.ranks());
  return Group::call_of(Collective::ReduceScatter, std::span<const float>(whole),
                        whole.subspan(static_cast<std::size_t>(group.rank()) * count, count), count, reduction);
}

}  // namespace

ShardedGradients::ShardedGradients(const Layout& layout, const DataParallelGroups& groups, const ShardGroups& scatter,
                                   MemoryAccounting& memory, const DataParallelOptions& options, const Share& share)
    : layout_(layout),
      groups_(groups),
      scatter_(scatter),
      memory_(memory),
      half_(options.half),
      reduction_(options.mean ? ReduceOp::Avg : ReduceOp::Sum),
      share_(share),
      overlap_(options.overlap),
      late_begin_(begin_of_late(layout)),
      own_(memory, MemoryTag::Gradients, layout.size() / share.parts),
      gradients_(layout.buckets().size()),
      started_(layout.buckets().size()),
      holds_sum_(layout.buckets().size()),
      ready_(static_cast<std::size_t>(layout.units())),
      in_backward_(static_cast<std::size_t>(layout.units())) {}

ShardedGradients::~ShardedGradients() {
  for (const Bucket& bucket : layout_.buckets()) set_gradients(bucket, {});
  for (Move& move : moves_) {
    try {
      // The operation writes to the memory that is freed next.
      finish(move);
    } catch (const Exception&) {
    }
  }
}

void ShardedGradients::begin_step(int /*micro_batches*/) {
  if (!adds_up_) {
    fill(own_.span(), 0.0f);
    std::fill(holds_sum_.begin(), holds_sum_.end(), 0);
  }
  std::fill(started_.begin(), started_.end(), 0);
  std::fill(ready_.begin(), ready_.end(), 0);
  std::fill(in_backward_.begin(), in_backward_.end(), 0);
  if (late_begin_ == layout_.size()) return;
  late_ = Buffer<float>(memory_, MemoryTag::Buckets, layout_.size() - late_begin_);
  for (std::size_t i = 0; i < layout_.buckets().size(); ++i) {
    if (is_late(i)) set_gradients(layout_.buckets()[i], late(layout_.buckets()[i]));
  }
}

void ShardedGradients::before_backward(int unit) {
  ++in_backward_[static_cast<std::size_t>(unit)];
  for (const int used : layout_.used_by(unit)) {
    for (const std::size_t index : layout_.of_unit(used)) provide(index);
  }
}

void ShardedGradients::provide(std::size_t index) {
  if (is_late(index) || !gradients_[index].empty()) return;
  const Bucket& bucket = layout_.buckets()[index];
  gradients_[index] = Buffer<float>(memory_, MemoryTag::Buckets, bucket.padded);
  set_gradients(bucket, gradients_[index].span());
}

void ShardedGradients::gradients_ready(int unit) {
  const auto at = static_cast<std::size_t>(unit);
  ++ready_[at];
  --in_backward_[at];
  for (const int used : layout_.used_by(unit)) {
    for (const std::size_t index : layout_.of_unit(used)) {
      if (is_late(index) || !is_complete(index)) continue;
      start(index);
      const std::vector<int>& users = layout_.buckets()[index].users;
      const bool goes_on = std::any_of(users.begin(), users.end(),
                                       [&](int user) { return in_backward_[static_cast<std::size_t>(user)] > 0; });
      if (goes_on) provide(index);
    }
  }
}

bool ShardedGradients::is_complete(std::size_t index) const {
  const std::vector<int>& users = layout_.buckets()[index].users;
  return !gradients_[index].empty() && std::all_of(users.begin(), users.end(), [&](int user) {
    return ready_[static_cast<std::size_t>(user)] > started_[index];
  });
}

void ShardedGradients::start(std::size_t index) {
  while (moves_.size() >= kMovesInFlight) finish_first();
  const Bucket& bucket = layout_.buckets()[index];
  ++started_[index];
  std::span<float> gradients = is_late(index) ? late(bucket) : gradients_[index].span();
  set_gradients(bucket, {});
  Move move{index, gradients, std::exchange(gradients_[index], {}), {}, {}};
  if (half_) {
    move.half = start_half(gradients, scatter_.shards);
  } else {
    move.pending = scatter_.shards.start(scatter_call(gradients, scatter_.shards, reduction_));
  }
  moves_.push_back(std::move(move));
  if (!overlap_) finish_first();
}

HalfReduction ShardedGradients::start_half(std::span<float> gradients, Group& group) const {
  const Share share{static_cast<std::size_t>(group.rank()), static_cast<std::size_t>(group.ranks())};
  return {gradients, HalfTravel{*half_, group, reduction_, share}, memory_};
}

void ShardedGradients::finish(Move& move) {
  move.pending.wait();
  move.half.finish();
}

void ShardedGradients::finish_first() {
  Move move = std::move(moves_.front());
  moves_.pop_front();
  finish(move);
  const Bucket& bucket = layout_.buckets()[move.bucket];
  if (scatter_.replicate != nullptr) {
    const std::size_t count = bucket.padded / static_cast<std::size_t>(scatter_.shards.ranks());
    const std::size_t begin = static_cast<std::size_t>(scatter_.shards.rank()) * count;
    const std::span<float> shard = move.gradients.subspan(begin, count);
    if (half_) {
      start_half(shard, *scatter_.replicate).finish();
    } else {
      scatter_.replicate->run(scatter_call(shard, *scatter_.replicate, reduction_));
    }
  }
  const std::span<const float> reduced = move.gradients.subspan(share_.begin(bucket), share_.count(bucket));
  const std::span<float> own = share_.in_shares(bucket, own_.span());
  if (std::exchange(holds_sum_[move.bucket], 1) == 0 || planted_fault(18)) {
    copy(reduced, own);
  } else {
    add(own, reduced);
  }
}

void ShardedGradients::finish_backward() {
  adds_up_ = !synchronizing_;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    // Some users of this bucket were not used in this step.
    if (!gradients_[i].empty()) start(i);
  }
  sum_earlier(layout_, late_begin_, late_.span(), groups_);
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (is_late(i)) start(i);
  }
  while (!moves_.empty()) finish_first();
  late_ = {};
}

std::span<const float> ShardedGradients::own(const Bucket& bucket) const {
  return share_.in_shares(bucket, own_.span());
}

}  // namespace wreath::training
