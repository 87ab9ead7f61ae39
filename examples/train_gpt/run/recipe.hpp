// The model, vocabulary, text and recipe that a checkpoint was trained with, beside those of a run that goes on from
// it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "examples/train_gpt/data/text.hpp"
#include "examples/train_gpt/train/options.hpp"

namespace wreath::gpt {

// By name: "heads" -> "4". A checkpoint keeps it beside its tensors (training::TrainingState::text).
using Recipe = std::map<std::string, std::string>;
Recipe recipe_of(const TrainOptions& options, const Text& text);

struct RecipeChanges {
  std::string wrong;                 // all differences with which the weights mean something else; empty: none
  std::vector<std::string> remarks;  // a line for each other difference, and one for what `kept` does not say
};
// `kept` may hold other entries, too.
RecipeChanges changes_between(const Recipe& kept, const Recipe& now);

}  // namespace wreath::gpt
