// This file computes the arrays of shards.
#include "training/checkpoint/shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace wreath::training {

namespace {

std::vector<std::string> names_of(const std::vector<Optimizer::Moment>& moments) {
  std::vector<std::string> names;
  for (const Optimizer::Moment& moment : moments) names.emplace_back(moment.name);
  return names;
}

}  // namespace

std::vector<ShardLayout::Part> ShardLayout::parts_of(const Shard& shard) {
  std::vector<Part> parts;
  for (const Piece& piece : shard.pieces) {
    parts.push_back({piece.parameter == nullptr ? "" : piece.parameter->name, piece.begin, piece.value.size()});
  }
  return parts;
}

ShardLayout::ShardLayout(const Shard& shard) : parts_(parts_of(shard)), moments_(names_of(shard.moments)) {
  for (const Part& part : parts_) {
    starts_.push_back(count_);
    count_ += part.count;
  }
}

std::string ShardLayout::tensor_name(const std::string& parameter, std::size_t array) const {
  return array == 0 ? parameter : parameter + "." + moments_[array - 1];
}

std::vector<StoredTensor> ShardLayout::tensors(const ShardPlan& plan, std::size_t first, std::size_t end) const {
  std::vector<StoredTensor> tensors;
  for (std::size_t array = first; array < end; ++array) {
    for (const ModelTensor& tensor : plan.tensors) {
      tensors.push_back({tensor_name(tensor.name, array), TensorType::F32, tensor.shape, 0, 0});
    }
  }
  return tensors;
}

float* ShardLayout::data(const Shard& shard, std::size_t array, std::size_t piece) const {
  return array == 0 ? shard.pieces[piece].value.data() : shard.moments[array - 1].values.data() + starts_[piece];
}

Status ShardLayout::check(const Shard& shard) const {
  const auto wrong = [](const std::string& what) { return Error{ErrorCode::InvalidArgument, "checkpoint: " + what}; };
  if (parts_of(shard) != parts_) return wrong("the pieces are not those the checkpointer was made for");
  if (names_of(shard.moments) != moments_) return wrong("the moments are not those the checkpointer was made for");
  for (const Optimizer::Moment& moment : shard.moments) {
    if (moment.values.size() != count_) {
      return wrong(fmt::format("moment {} has {} elements, the pieces {}", moment.name, moment.values.size(), count_));
    }
  }
  return {};
}

Result<ShardLayout> agree_on_layout(Agreement& ranks, const Shard& shard, const Status& before) {
  ShardLayout layout(shard);
  const std::string mine = fmt::format("{}", fmt::join(layout.moments(), ","));
  const Result<std::vector<std::string>> moments = ranks.gather(mine);
  if (!moments) return moments.error();
  Status status = before ? layout.check(shard) : before;
  if (status && mine != moments->front()) {
    status = Error{ErrorCode::Mismatch,
                   fmt::format("checkpoint: its moments are '{}', rank 0's '{}'", mine, moments->front())};
  }
  WREATH_TRY(ranks.agree(status));
  return layout;
}

}  // namespace wreath::training
