// Reading JSON that may be anything: members with their type and range checked.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "wreath/result.hpp"

namespace wreath {

// The JSON object that `text` is; why it is none, with `source` in front.
inline Result<nlohmann::json> parse_object(std::string_view text, std::string_view source, std::size_t maximum_bytes) {
  const auto wrong = [&](const std::string& reason) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{}: {}", source, reason)};
  };
  if (text.size() > maximum_bytes) return wrong(fmt::format("it is longer than {} bytes", maximum_bytes));
  nlohmann::json object = nlohmann::json::parse(text, nullptr, false);
  if (object.is_discarded()) return wrong("it is not JSON, or cut short");
  if (!object.is_object()) return wrong("it is not a JSON object");
  return object;
}

// Takes members of one JSON object with their type and range checked. The first wrong one is kept.
class JsonReader {
 public:
  static constexpr std::size_t kMaximumTextBytes = 4096;

  explicit JsonReader(const nlohmann::json& object) : object_(object) {}

  std::int64_t integer(const char* key, std::int64_t minimum, std::int64_t maximum) {
    const nlohmann::json* value = member(key);
    if (value == nullptr) return minimum;
    const bool small = value->is_number_integer() &&
                       !(value->is_number_unsigned() &&
                         value->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()});
    if (!small || value->get<std::int64_t>() < minimum || value->get<std::int64_t>() > maximum) {
      refuse(key, fmt::format("is not a whole number from {} to {}", minimum, maximum));
      return minimum;
    }
    return value->get<std::int64_t>();
  }

  double number(const char* key, double minimum, double maximum) {
    const nlohmann::json* value = member(key);
    if (value == nullptr) return minimum;
    const double found = value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
    if (found >= minimum && found <= maximum) return found;  // not so for NaN
    refuse(key, fmt::format("is not a number from {} to {}", minimum, maximum));
    return minimum;
  }

  std::string text(const char* key) {
    const nlohmann::json* value = member(key);
    if (value == nullptr) return {};
    if (!value->is_string() || value->get_ref<const std::string&>().size() > kMaximumTextBytes) {
      refuse(key, fmt::format("is not a text of at most {} bytes", kMaximumTextBytes));
      return {};
    }
    return value->get<std::string>();
  }

  // The candidate whose name() is the member's text.
  template <typename T, typename Candidates>
  T choice(const char* key, const Candidates& candidates) {
    const std::string wanted = text(key);
    for (const T candidate : candidates) {
      if (name(candidate) == wanted) return candidate;
    }
    refuse(key, fmt::format("is '{}', which this program does not know", wanted.substr(0, 40)));
    return T{};
  }

  bool has(const char* key) const { return object_.contains(key); }

  const nlohmann::json* array(const char* key, std::size_t maximum_size) {
    const nlohmann::json* value = member(key);
    if (value == nullptr) return nullptr;
    if (value->is_array() && value->size() <= maximum_size) return value;
    refuse(key, fmt::format("is not a list of at most {} entries", maximum_size));
    return nullptr;
  }

  void refuse(const char* key, const std::string& reason) {
    if (!refusal_) refusal_ = fmt::format("\"{}\" {}", key, reason);
  }
  const std::optional<std::string>& refusal() const { return refusal_; }

 private:
  const nlohmann::json* member(const char* key) {
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    refuse(key, "is missing");
    return nullptr;
  }

  const nlohmann::json& object_;
  std::optional<std::string> refusal_;
};

}  // namespace wreath
