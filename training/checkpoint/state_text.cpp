// This file writes the small state as JSON and parses it.
#include "training/checkpoint/state_text.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace wreath::training {

namespace {
constexpr const char* kFormat = "wreath-checkpoint";
constexpr int kVersion = 1;
constexpr std::uint64_t kMost = 1'000'000'000'000'000;  // no training gets there
}  // namespace

std::string encode_state(const StoredState& stored) {
  const TrainingState& state = stored.state;
  const nlohmann::ordered_json json = {{"format", kFormat},         {"version", kVersion},
                                       {"step", state.step},        {"optimizer_steps", state.optimizer_steps},
                                       {"seed", state.seed},        {"data_cursor", state.data_cursor},
                                       {"moments", stored.moments}, {"text", state.text}};
  return json.dump(2) + "\n";
}

Result<StoredState> parse_state(const std::string& text, const std::string& file) {
  const auto wrong = [&](const std::string& reason) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{}: {}", file, reason)};
  };
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  // The parser takes a byte 0 for the end of the text.
  if (json.is_discarded() || text.find('\0') != std::string::npos) return wrong("it is not JSON, or cut short");
  try {
    if (json.at("format") != kFormat) return wrong("its format is not " + std::string(kFormat));
    if (json.at("version") != kVersion) return wrong(fmt::format("its version is not {}", kVersion));
    for (const char* key : {"step", "optimizer_steps", "seed", "data_cursor"}) {
      if (!json.at(key).is_number_integer()) return wrong(fmt::format("{} is not a whole number", key));
      if (!json.at(key).is_number_unsigned()) return wrong(fmt::format("{} is negative", key));
    }
    for (const char* key : {"step", "optimizer_steps", "data_cursor"}) {
      if (json.at(key).get<std::uint64_t>() > kMost) return wrong(fmt::format("{} is above {}", key, kMost));
    }
    StoredState stored;
    stored.state.step = json.at("step");
    stored.state.optimizer_steps = json.at("optimizer_steps");
    stored.state.seed = json.at("seed");
    stored.state.data_cursor = json.at("data_cursor");
    stored.state.text = json.at("text").get<std::map<std::string, std::string>>();
    stored.moments = json.at("moments").get<std::vector<std::string>>();
    return stored;
  } catch (const nlohmann::json::exception& failure) {
    return wrong(failure.what());
  }
}

}  // namespace wreath::training
