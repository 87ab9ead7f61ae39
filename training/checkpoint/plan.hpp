// This file plans which elements of the model's tensors a rank holds and which of them it writes. Every element is
// written once, however ranks share them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "training/checkpoint/agreement.hpp"
#include "training/parameters/strategy.hpp"

namespace wreath::training {

// A whole tensor of the model.
struct ModelTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool operator==(const ModelTensor&) const = default;
};

// The elements of piece `piece` (an index of the list) that belong to tensors[tensor]. Run::local counts from the
// piece's first element.
struct PieceRuns {
  std::size_t piece = 0;
  std::size_t tensor = 0;
  std::vector<Run> runs;
};

struct ShardPlan {
  // The tensors of all ranks, each once, by name.
  std::vector<ModelTensor> tensors;
  // One entry for each piece, in the order of the pieces.
  std::vector<PieceRuns> held;
  std::int64_t count = 0;  // elements of held
};

// Plans all elements that the pieces hold. Every rank calls it. Errors, on all ranks, are a piece beyond its parameter,
// and a name whose shape differs from rank to rank.
Result<ShardPlan> plan_load(Agreement& ranks, std::span<const Piece> pieces);

// Plans the elements that this rank writes. One of the ranks that hold the same elements writes them; it changes from
// tensor to tensor. The error is InvalidArgument where no rank holds an element, or where two pieces of a rank do.
Result<ShardPlan> plan_save(Agreement& ranks, std::span<const Piece> pieces);

}  // namespace wreath::training
