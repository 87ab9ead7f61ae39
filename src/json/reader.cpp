// Reads members of a JSON object and checks them one by one.
#include "src/json/reader.hpp"

#include <limits>

namespace wreath {

Result<Json> parse_object(std::string_view text, std::string_view source, std::size_t maximum_bytes) {
  const auto wrong = [&](const std::string& reason) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{}: {}", source, reason)};
  };
  if (text.size() > maximum_bytes) return wrong(fmt::format("it is longer than {} bytes", maximum_bytes));
  std::optional<Json> object = Json::read(text);
  if (!object) return wrong("it is not JSON, or cut short");
  if (!object->is_object()) return wrong("it is not a JSON object");
  return *std::move(object);
}

std::int64_t JsonReader::integer(const char* key, std::int64_t minimum, std::int64_t maximum) {
  const Json* value = member(key);
  if (value == nullptr) return minimum;
  const std::optional<std::int64_t> found = value->integer();
  if (found && *found >= minimum && *found <= maximum) return *found;
  refuse(key, fmt::format("is not a whole number from {} to {}", minimum, maximum));
  return minimum;
}

double JsonReader::number(const char* key, double minimum, double maximum) {
  const Json* value = member(key);
  if (value == nullptr) return minimum;
  const double found = value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (found >= minimum && found <= maximum) return found;  // not so for NaN
  refuse(key, fmt::format("is not a number from {} to {}", minimum, maximum));
  return minimum;
}

std::string JsonReader::text(const char* key) {
  const Json* value = member(key);
  if (value == nullptr) return {};
  std::string found = value->is_string() ? value->get<std::string>() : std::string();
  if (value->is_string() && found.size() <= kMaximumTextBytes) return found;
  refuse(key, fmt::format("is not a text of at most {} bytes", kMaximumTextBytes));
  return {};
}

const Json* JsonReader::array(const char* key, std::size_t maximum_size) {
  const Json* value = member(key);
  if (value == nullptr) return nullptr;
  if (value->is_array() && value->size() <= maximum_size) return value;
  refuse(key, fmt::format("is not a list of at most {} entries", maximum_size));
  return nullptr;
}

void JsonReader::refuse(const char* key, const std::string& reason) {
  if (!refusal_) refusal_ = fmt::format("\"{}\" {}", key, reason);
}

const Json* JsonReader::member(const char* key) {
  const Json* found = object_.find(key);
  if (found == nullptr) refuse(key, "is missing");
  return found;
}

}  // namespace wreath
