// This file declares training_state.json, which holds the state besides the tensors.
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

// Returns the state as JSON. Throws nlohmann::json::exception where a text is no UTF-8.
std::string encode_state(const StoredState& stored);
// Parses the state. The error is InvalidArgument, which names `file` and the reason.
Result<StoredState> parse_state(const std::string& text, const std::string& file);

}  // namespace wreath::training
