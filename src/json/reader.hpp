// Reads JSON that may be anything, and checks the type and range of its members.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/json/value.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Returns the JSON object that `text` is, or why it is none, with `source` in front.
Result<Json> parse_object(std::string_view text, std::string_view source, std::size_t maximum_bytes);

// Takes members of one JSON object with their type and range checked. The first wrong one is kept.
class JsonReader {
 public:
  static constexpr std::size_t kMaximumTextBytes = 4096;

  explicit JsonReader(const Json& object) : object_(object) {}

  std::int64_t integer(const char* key, std::int64_t minimum, std::int64_t maximum);
  double number(const char* key, double minimum, double maximum);
  std::string text(const char* key);

  // Returns the candidate whose name() is the member's text.
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
  const Json* array(const char* key, std::size_t maximum_size);

  void refuse(const char* key, const std::string& reason);
  const std::optional<std::string>& refusal() const { return refusal_; }

 private:
  const Json* member(const char* key);

  const Json& object_;
  std::optional<std::string> refusal_;
};

}  // namespace wreath
