// training_state.json: what is no tensor.
#pragma once

#include <string>
#include <vector>

#include "training/checkpoint/checkpoint.hpp"

namespace wreath::training {

inline constexpr const char* kStateFile = "training_state.json";

struct StoredState {
  TrainingState state;
  std::vector<std::string> moments;  // names of an element's moments
};

// Throws nlohmann::json::exception where a text is no UTF-8.
std::string encode_state(const StoredState& stored);
// InvalidArgument names `file` and what is wrong.
Result<StoredState> parse_state(const std::string& text, const std::string& file);

}  // namespace wreath::training
