// Reads options by one row for each; values are read as those of the environment are.
#include "bindings/c/options.hpp"

#include <array>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>

#include "wreath/units.hpp"

namespace wreath::c_api {
namespace {

constexpr std::size_t kMostOptions = 64;
constexpr std::size_t kMostBytes = 4096;

Error invalid(std::string text) { return {ErrorCode::InvalidArgument, std::move(text), -1}; }

// Reads a whole number that the field can hold.
template <typename Integer>
Status read_integer(std::string_view value, Integer& field) {
  const char* end = value.data() + value.size();
  const auto [last, error] = std::from_chars(value.data(), end, field);
  if (error != std::errc() || last != end) return invalid("must be a whole number in range");
  return {};
}

Status read_bytes(std::string_view value, std::size_t& field) {
  const auto bytes = parse_bytes(value);
  if (!bytes) return bytes.error();
  field = static_cast<std::size_t>(*bytes);
  return {};
}

Status read_boolean(std::string_view value, bool& field) {
  if (value != "0" && value != "1") return invalid("must be 0 or 1");
  field = value == "1";
  return {};
}

Status read_names(std::string_view value, std::vector<std::string>& field) {
  field.clear();
  while (!value.empty()) {
    const std::size_t comma = std::min(value.find(','), value.size());
    if (comma > 0) field.emplace_back(value.substr(0, comma));
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  return {};
}

struct OptionRow {
  std::string_view name;
  Status (*read)(std::string_view value, CommunicatorOptions& options);
};

using Options = CommunicatorOptions;
using Text = std::string_view;

constexpr std::array kOptions{
    OptionRow{"transports", [](Text value, Options& options) { return read_names(value, options.transports); }},
    OptionRow{"algorithm", [](Text value, Options& options) { return options.overrides.algorithm = value, Status(); }},
    OptionRow{"executor", [](Text value, Options& options) { return options.overrides.executor = value, Status(); }},
    OptionRow{"lanes", [](Text value, Options& options) { return read_integer(value, options.overrides.lanes); }},
    OptionRow{"tile_bytes",
              [](Text value, Options& options) { return read_bytes(value, options.overrides.tile_bytes); }},
    OptionRow{"reproducible", [](Text value, Options& options) { return read_boolean(value, options.reproducible); }},
    OptionRow{"check_wires", [](Text value, Options& options) { return read_boolean(value, options.check_wires); }},
    OptionRow{"slot_count",
              [](Text value, Options& options) { return read_integer(value, options.overrides.slot_count); }},
    OptionRow{"buffer_bytes",
              [](Text value, Options& options) { return read_bytes(value, options.overrides.buffer_bytes); }},
    OptionRow{"single_copy_bytes",
              [](Text value, Options& options) {
                if (value != "auto") return read_bytes(value, options.overrides.single_copy_bytes);
                options.overrides.single_copy_bytes = kAutomaticBytes;
                return Status();
              }},
    OptionRow{"exchange_rounds",
              [](Text value, Options& options) { return read_integer(value, options.overrides.exchange_rounds); }},
    OptionRow{"faults", [](Text value, Options& options) { return options.debug.faults = value, Status(); }},
    OptionRow{"trace", [](Text value, Options& options) { return options.debug.trace = value, Status(); }},
    OptionRow{"tuning", [](Text value, Options& options) { return options.tuning = value, Status(); }},
    OptionRow{"bootstrap_ms",
              [](Text value, Options& options) { return read_integer(value, options.timeouts.bootstrap_ms); }},
    OptionRow{"late_warning_ms",
              [](Text value, Options& options) { return read_integer(value, options.timeouts.late_warning_ms); }},
    OptionRow{"arrival_ms",
              [](Text value, Options& options) { return read_integer(value, options.timeouts.arrival_ms); }},
    OptionRow{"stall_ms", [](Text value, Options& options) { return read_integer(value, options.timeouts.stall_ms); }},
};

std::string known_names() {
  std::string names;
  for (const OptionRow& row : kOptions) names.append(" ").append(row.name);
  return names;
}

Status read_option(std::string_view text, CommunicatorOptions& options) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return invalid("option '" + std::string(text) + "': must be name=value");
  const std::string_view name = text.substr(0, equals);
  for (const OptionRow& row : kOptions) {
    if (row.name != name) continue;
    const Status read = row.read(text.substr(equals + 1), options);
    if (!read) return invalid("option '" + std::string(text) + "': " + read.error().message);
    return {};
  }
  return invalid("option '" + std::string(name) + "' does not exist; these do:" + known_names());
}

}  // namespace

Result<CommunicatorOptions> read_options(const char* const* texts) {
  CommunicatorOptions options;
  for (std::size_t i = 0; texts != nullptr && texts[i] != nullptr; ++i) {
    if (i == kMostOptions) return invalid("more than " + std::to_string(kMostOptions) + " options");
    const std::size_t bytes = ::strnlen(texts[i], kMostBytes + 1);
    if (bytes > kMostBytes) return invalid("option " + std::to_string(i) + ": more than 4096 bytes");
    WREATH_TRY(read_option({texts[i], bytes}, options));
  }
  return options;
}

}  // namespace wreath::c_api
