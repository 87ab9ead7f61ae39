// This file starts the reductions of buckets and ends them.
#include "training/data_parallel/bucket_reducer.hpp"

#include <algorithm>
#include <utility>

#include "src/base/planted_fault.hpp"
#include "training/mesh/wait_all.hpp"
#include "training/parameters/half_reduction.hpp"

namespace wreath::training {

namespace {

// Reduces a bucket the default way: one call, in place.
std::function<void()> start_reduction(std::span<float> bucket, Group& group, const Reduction& reduction,
                                      const Share& share) {
  const std::size_t count = bucket.size() / share.parts;
  const bool whole = share.parts == 1;
  Call call = Group::call_of(whole ? Collective::AllReduce : Collective::ReduceScatter, std::span<const float>(bucket),
                             bucket.subspan(whole ? 0 : share.part * count, count), count, reduction);
  auto pending = std::make_shared<Pending>(group.start(call));
  return [pending] { pending->wait(); };
}

}  // namespace

BucketReducer::BucketReducer(const Layout& layout, const DataParallelGroups& groups, MemoryAccounting& memory,
                             const DataParallelOptions& options, const Share& share)
    : layout_(layout),
      groups_(groups),
      memory_(memory),
      hook_(options.hook),
      half_(options.half),
      reduction_(options.mean && !planted_fault(17) ? ReduceOp::Avg : ReduceOp::Sum),
      share_(share),
      overlap_(options.overlap),
      gradients_(memory, MemoryTag::Gradients, layout.size()),
      ready_(static_cast<std::size_t>(layout.units())) {
  for (const Bucket& bucket : layout_.buckets()) set_gradients(bucket, bucket.of(gradients_.span()));
}

BucketReducer::~BucketReducer() {
  for (const Bucket& bucket : layout_.buckets()) set_gradients(bucket, {});
  for (const std::function<void()>& finish : in_flight_) {
    try {
      // The operation writes to the memory that is freed next.
      finish();
    } catch (const Exception&) {
    }
  }
}

void BucketReducer::begin_step(int micro_batches) {
  micro_batches_ = micro_batches;
  if (!adds_up_) fill(gradients_.span(), 0.0f);
  std::fill(ready_.begin(), ready_.end(), 0);
  next_ = 0;
}

void BucketReducer::before_backward(int /*unit*/) {}

void BucketReducer::gradients_ready(int unit) {
  ++ready_[static_cast<std::size_t>(unit)];
  if (!synchronizing_ || !overlap_) return;
  start_while([this](const Bucket& bucket) { return bucket.earlier_sum == EarlierSum::None && is_ready(bucket); });
}

bool BucketReducer::is_ready(const Bucket& bucket) const {
  return std::all_of(bucket.users.begin(), bucket.users.end(),
                     [&](int unit) { return ready_[static_cast<std::size_t>(unit)] == micro_batches_; });
}

void BucketReducer::start_while(const std::function<bool(const Bucket&)>& wanted) {
  for (; next_ < layout_.buckets().size() && wanted(layout_.buckets()[next_]); ++next_) start(layout_.buckets()[next_]);
}

void BucketReducer::start(const Bucket& bucket) {
  const std::span<float> gradients = bucket.of(gradients_.span());
  if (hook_) {
    in_flight_.push_back(hook_(gradients, groups_.replicas, reduction_));
  } else if (half_) {
    auto moving =
        std::make_shared<HalfReduction>(gradients, HalfTravel{*half_, groups_.replicas, reduction_, share_}, memory_);
    in_flight_.push_back([moving] { moving->finish(); });
  } else {
    in_flight_.push_back(start_reduction(gradients, groups_.replicas, reduction_, share_));
  }
}

void BucketReducer::finish_backward() {
  adds_up_ = !synchronizing_;
  if (!synchronizing_) return;
  start_while([](const Bucket& bucket) { return bucket.earlier_sum == EarlierSum::None; });
  sum_earlier(layout_, 0, gradients_.span(), groups_);
  start_while([](const Bucket&) { return true; });
  finish_all();
}

void BucketReducer::finish_all() {
  end_all(std::exchange(in_flight_, {}), [](const std::function<void()>& finish) { finish(); });
}

std::span<const float> BucketReducer::own(const Bucket& bucket) const {
  return bucket.of(gradients_.span()).subspan(share_.begin(bucket), share_.count(bucket));
}

}  // namespace wreath::training
