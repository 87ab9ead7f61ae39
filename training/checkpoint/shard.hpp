// This file declares the arrays of a shard: the weights and each moment, all divided alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training/checkpoint/agreement.hpp"
#include "training/checkpoint/checkpoint.hpp"
#include "training/checkpoint/plan.hpp"
#include "training/checkpoint/safetensors.hpp"

namespace wreath::training {

// The part of a shard that stays the same from call to call. Array 0 is the weights, array 1 the first moment.
class ShardLayout {
 public:
  ShardLayout() = default;
  explicit ShardLayout(const Shard& shard);

  std::size_t arrays() const noexcept { return moments_.size() + 1; }
  const std::vector<std::string>& moments() const noexcept { return moments_; }
  // Returns a name like "wte.weight" or "wte.weight.exp_avg".
  std::string tensor_name(const std::string& parameter, std::size_t array) const;
  // Returns the tensors of arrays [first, end), without places.
  std::vector<StoredTensor> tensors(const ShardPlan& plan, std::size_t first, std::size_t end) const;
  // Returns the address of the piece's first element.
  float* data(const Shard& shard, std::size_t array, std::size_t piece) const;
  // Checks that `shard` has this layout, and moments as long as its pieces.
  Status check(const Shard& shard) const;

 private:
  struct Part {
    std::string parameter;
    std::int64_t begin;
    std::size_t count;
    bool operator==(const Part&) const = default;
  };
  static std::vector<Part> parts_of(const Shard& shard);
  std::vector<Part> parts_;
  std::vector<std::size_t> starts_;  // of pieces laid end to end
  std::size_t count_ = 0;
  std::vector<std::string> moments_;
};

// Makes the layout. Every rank calls it with its status of the steps `before`. An error there, a malformed shard, or
// moments of other names than rank 0's are an error on all ranks.
Result<ShardLayout> agree_on_layout(Agreement& ranks, const Shard& shard, const Status& before);

}  // namespace wreath::training
