// Which elements of the model's tensors a rank holds and which of them it writes, so that every element is written
// once however ranks share them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "training/checkpoint/agreement.hpp"
#include "training/parameters/strategy.hpp"

namespace wreath::training {

// A tensor of the model, whole.
struct ModelTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool operator==(const ModelTensor&) const = default;
};

// Elements of piece `piece` (an index of the list) that belong to tensors[tensor]; Run::local counts from the piece's
// first element.
struct PieceRuns {
  std::size_t piece = 0;
  std::size_t tensor = 0;
  std::vector<Run> runs;
};

struct ShardPlan {
  std::vector<ModelTensor> tensors;  // of all ranks, each once, by name
  std::vector<PieceRuns> held;       // one for each piece, in their order
  std::int64_t count = 0;            // elements of held
};

// All that the pieces hold. Every rank calls it. Errors, on all ranks: a piece beyond its parameter, a name whose shape
// differs from rank to rank.
Result<ShardPlan> plan_load(Agreement& ranks, std::span<const Piece> pieces);

// What this rank writes: of elements that several ranks hold, one of them, which changes from tensor to tensor.
// InvalidArgument where no rank holds an element, or two pieces of a rank do.
Result<ShardPlan> plan_save(Agreement& ranks, std::span<const Piece> pieces);

}  // namespace wreath::training
