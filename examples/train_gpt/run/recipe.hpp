// This file compares the model, vocabulary, text and recipe that a checkpoint was trained with, with those of a run
// that continues from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "examples/train_gpt/data/text.hpp"
#include "examples/train_gpt/train/options.hpp"

namespace wreath::gpt {

// The values by name: "heads" -> "4". A checkpoint keeps it beside its tensors (training::TrainingState::text).
using Recipe = std::map<std::string, std::string>;
Recipe recipe_of(const TrainOptions& options, const Text& text);

struct RecipeChanges {
  // All differences that give the weights another meaning; empty: none.
  std::string wrong;
  // A line for each other difference, and one for the values that `kept` lacks.
  std::vector<std::string> remarks;
};
// Returns the changes from `kept`, which may hold other entries, too, to `now`.
RecipeChanges changes_between(const Recipe& kept, const Recipe& now);

}  // namespace wreath::gpt
