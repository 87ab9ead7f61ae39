// This file decides the place of each parameter.
#include "training/parameters/layout.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "training/compute/compute.hpp"

namespace wreath::training {

namespace {

EarlierSum earlier_sum(const Parameter& parameter, const DataParallelGroups& groups) {
  const bool partial = parameter.gradient_is_partial && !groups.tensor.alone();
  const bool tied = parameter.tied && !groups.embedding.alone();
  if (partial) return tied ? EarlierSum::TensorAndEmbedding : EarlierSum::Tensor;
  return tied ? EarlierSum::Embedding : EarlierSum::None;
}

// Calls visit(slot, begin of the overlap within the slot, its elements, its place in the range).
template <typename Visit>
void for_each_overlap(const Bucket& bucket, std::size_t begin, std::size_t count, const Visit& visit) {
  for (const Slot& slot : bucket.slots) {
    const std::size_t first = std::max(begin, slot.begin);
    const std::size_t end = std::min(begin + count, slot.begin + slot.count);
    if (first < end) visit(slot, first - slot.begin, end - first, first - begin);
  }
}

}  // namespace

Layout::Layout(ParameterList& parameters, const DataParallelGroups& groups, const DataParallelOptions& options,
               const LayoutOptions& layout)
    : units_(parameters.units()) {
  find_users(options.also_uses);
  of_unit_.resize(static_cast<std::size_t>(units_));
  std::array<std::vector<Parameter*>, 4> by_sum;
  for (auto parameter = parameters.all().rbegin(); parameter != parameters.all().rend(); ++parameter) {
    by_sum[static_cast<std::size_t>(earlier_sum(*parameter, groups))].push_back(&*parameter);
  }
  for (std::size_t i = 0; i < by_sum.size(); ++i) {
    if (layout.by_unit) {
      std::stable_sort(by_sum[i].begin(), by_sum[i].end(),
                       [](const Parameter* a, const Parameter* b) { return a->unit > b->unit; });
    }
    add_buckets(static_cast<EarlierSum>(i), by_sum[i], layout);
  }
}

void Layout::find_users(const std::vector<std::vector<int>>& also_uses) {
  if (also_uses.size() > static_cast<std::size_t>(units_)) {
    throw Exception({ErrorCode::InvalidArgument, "also_uses names " + std::to_string(also_uses.size()) +
                                                     " units, but the parameters are of " + std::to_string(units_)});
  }
  for (int unit = 0; unit < units_; ++unit) {
    used_by_.push_back({unit});
    users_of_.push_back({unit});
  }
  for (std::size_t unit = 0; unit < also_uses.size(); ++unit) {
    for (const int used : also_uses[unit]) {
      if (used < 0 || used >= units_ || used == static_cast<int>(unit)) {
        throw Exception({ErrorCode::InvalidArgument, "also_uses[" + std::to_string(unit) + "] names unit " +
                                                         std::to_string(used) + ": not another of 0 .. " +
                                                         std::to_string(units_ - 1)});
      }
      used_by_[unit].push_back(used);
      users_of_[static_cast<std::size_t>(used)].push_back(static_cast<int>(unit));
    }
  }
}

void Layout::add_buckets(EarlierSum earlier_sum, const std::vector<Parameter*>& parameters,
                         const LayoutOptions& layout) {
  Bucket bucket;
  bucket.earlier_sum = earlier_sum;
  std::size_t elements = 0;
  const auto is_full = [&](const Parameter& next) {
    if (layout.by_unit) return bucket.slots.back().parameter->unit != next.unit;
    if (earlier_sum != EarlierSum::None) return false;
    const std::size_t limit = buckets_.empty() ? layout.first_bucket_bytes : layout.bucket_bytes;
    return (elements + static_cast<std::size_t>(next.local_count())) * sizeof(float) > limit;
  };
  for (Parameter* parameter : parameters) {
    if (!bucket.slots.empty() && is_full(*parameter)) {
      close(bucket, layout.parts);
      elements = 0;
    }
    const auto count = static_cast<std::size_t>(parameter->local_count());
    bucket.slots.push_back({parameter, elements, count});
    elements += count;
  }
  if (!bucket.slots.empty()) close(bucket, layout.parts);
}

void Layout::close(Bucket& bucket, std::size_t parts) {
  const EarlierSum earlier_sum = bucket.earlier_sum;
  const Slot& last = bucket.slots.back();
  bucket.begin = size_;
  bucket.padded = (last.begin + last.count + parts - 1) / parts * parts;
  size_ += bucket.padded;
  for (const Slot& slot : bucket.slots) {
    const auto unit = static_cast<std::size_t>(slot.parameter->unit);
    for (const int user : users_of_[unit]) {
      if (std::find(bucket.users.begin(), bucket.users.end(), user) == bucket.users.end()) bucket.users.push_back(user);
    }
    std::vector<std::size_t>& of_unit = of_unit_[unit];
    if (of_unit.empty() || of_unit.back() != buckets_.size()) of_unit.push_back(buckets_.size());
  }
  buckets_.push_back(std::move(bucket));
  bucket = {};
  bucket.earlier_sum = earlier_sum;
}

ElementRange Layout::range(EarlierSum first, EarlierSum last) const {
  std::size_t begin = 0;
  std::size_t end = 0;
  for (const Bucket& bucket : buckets_) {
    if (bucket.earlier_sum < first) begin = bucket.begin + bucket.padded;
    if (bucket.earlier_sum <= last) end = bucket.begin + bucket.padded;
  }
  return {begin, end - begin};
}

void add_pieces(const Bucket& bucket, std::size_t begin, std::span<float> value, std::span<const float> gradient,
                std::vector<Piece>& pieces) {
  for_each_overlap(bucket, begin, value.size(), [&](const Slot& slot, std::size_t first, std::size_t count, auto at) {
    pieces.push_back(
        {slot.parameter, static_cast<std::int64_t>(first), value.subspan(at, count), gradient.subspan(at, count)});
  });
}

void initialize(const Bucket& bucket, std::size_t begin, std::span<float> out, std::uint64_t seed) {
  std::vector<float> drawn;  // for a device
  std::span<float> here = out;
  if (compute_of(out) != nullptr) {
    drawn.resize(out.size());
    here = drawn;
  }
  std::fill(here.begin(), here.end(), 0.0f);
  for_each_overlap(bucket, begin, here.size(), [&](const Slot& slot, std::size_t first, std::size_t count, auto at) {
    Initializer(*slot.parameter, seed).fill(static_cast<std::int64_t>(first), here.subspan(at, count));
  });
  copy<float>(here, out);
}

}  // namespace wreath::training
