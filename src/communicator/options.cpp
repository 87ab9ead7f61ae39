// Options are checked once, where they enter, and trusted afterwards.
#include "src/communicator/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>

#include "src/base/clock.hpp"
#include "src/base/config.hpp"
#include "src/base/invalid_argument.hpp"
#include "src/base/log.hpp"
#include "src/base/ports.hpp"
#include "src/base/progress.hpp"
#include "src/communicator/own_device.hpp"
#include "src/device/runs/device_parts.hpp"
#include "src/engine/exchange.hpp"
#include "src/executor/handwritten/handwritten.hpp"
#include "src/json/value.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/algorithm.hpp"
#include "wreath/transport.hpp"
#include "wreath/tuning.hpp"

namespace wreath {
namespace {

constexpr std::string_view kNoTuning = "none";
constexpr std::uint32_t kMaximumSlotCount = 1024;
// Each data lane is at least one lane.
constexpr int kMaximumDataLanes = kExchangeLane;
constexpr std::array kTimeouts{&Timeouts::bootstrap_ms, &Timeouts::late_warning_ms, &Timeouts::arrival_ms,
                               &Timeouts::stall_ms};

template <typename T>
Status fill_integer(T& field, T untouched, Setting setting) {
  if (field != untouched || !is_set(setting)) return {};
  return read_setting(setting, field);
}

void fill_text(std::string& field, Setting setting) {
  if (field.empty()) field = setting_text(setting);
}

Status fill_bytes(std::size_t& field, Setting setting) {
  if (field != 0) return {};
  const auto value = setting_bytes(setting);
  if (!value) return value.error();
  field = static_cast<std::size_t>(*value);
  return {};
}

Status fill_single_copy(std::size_t& field) {
  constexpr Setting kSetting = Setting::SingleCopyBytes;
  if (field != kAutomaticBytes || setting_text(kSetting) == "auto") return {};
  const auto value = setting_bytes(kSetting);
  if (!value) return invalid_argument(value.error().message + ", or auto");
  field = static_cast<std::size_t>(*value);
  return {};
}

Status fill_sockets(std::int64_t& field) {
  if (field != 0 || setting_text(Setting::TcpSockets) == "auto") return {};
  const auto value = setting_integer(Setting::TcpSockets);
  if (!value) return invalid_argument(value.error().message + ", or auto");
  field = *value;
  return {};
}

Status fill_from_environment(Timeouts& timeouts) {
  const Timeouts untouched;
  WREATH_TRY(fill_integer(timeouts.bootstrap_ms, untouched.bootstrap_ms, Setting::BootstrapTimeoutMs));
  WREATH_TRY(fill_integer(timeouts.late_warning_ms, untouched.late_warning_ms, Setting::LateWarningMs));
  WREATH_TRY(fill_integer(timeouts.arrival_ms, untouched.arrival_ms, Setting::ArrivalTimeoutMs));
  return fill_integer(timeouts.stall_ms, untouched.stall_ms, Setting::StallTimeoutMs);
}

Status fill_from_environment(CommunicatorOptions& options) {
  const Overrides untouched;
  Overrides& overrides = options.overrides;
  if (options.transports.empty()) options.transports = split_list(setting_text(Setting::TransportNames));
  fill_text(overrides.algorithm, Setting::AlgorithmName);
  fill_text(options.debug.faults, Setting::Faults);
  fill_text(options.debug.trace, Setting::Trace);
  fill_text(options.tuning, Setting::Tuning);
  fill_text(options.device, Setting::DeviceName);
  WREATH_TRY(fill_integer(overrides.lanes, untouched.lanes, Setting::Lanes));
  WREATH_TRY(fill_from_environment(options.timeouts));
  WREATH_TRY(fill_bytes(overrides.tile_bytes, Setting::TileBytes));
  WREATH_TRY(fill_bytes(overrides.buffer_bytes, Setting::BufferBytes));
  WREATH_TRY(fill_single_copy(overrides.single_copy_bytes));
  WREATH_TRY(fill_bytes(overrides.low_latency_bytes, Setting::LowLatencyBytes));
  // Each rank has its own value and reads it where it counts.
  for (const Setting own : {Setting::SpinUs, Setting::HostCores}) {
    if (const auto value = setting_integer(own); !value) return value.error();
  }
  const auto reproducible = setting_boolean(Setting::Reproducible);
  if (!reproducible) return reproducible.error();
  const auto check = setting_boolean(Setting::Check);
  if (!check) return check.error();
  options.reproducible = options.reproducible && *reproducible;
  options.check_wires = options.check_wires || *check;
  return {};
}

// Checks that some collective has a row of this name.
Status check_algorithm(const std::string& wanted) {
  std::set<std::string_view> known;
  for (const Algorithm& row : algorithms()) known.insert(row.name);
  if (wanted.empty() || known.contains(wanted)) return {};
  return invalid_argument(fmt::format("algorithm '{}' does not exist; these do: {}", wanted, fmt::join(known, " ")));
}

// Checks the executor. With a named algorithm, "handwritten" needs an algorithm that has a loop.
Status check_executor(const Overrides& overrides) {
  if (overrides.executor.empty() || overrides.executor == kStepsExecutor) return {};
  if (overrides.executor != kHandwrittenExecutor) {
    const bool gone = overrides.executor == "straight" || overrides.executor == "auto";
    const std::string hint = fmt::format(" ('{}' is '{}' now)", overrides.executor,
                                         overrides.executor == "auto" ? kStepsExecutor : kHandwrittenExecutor);
    return invalid_argument(fmt::format("executor '{}' does not exist; these do: {} {}{}", overrides.executor,
                                        kStepsExecutor, kHandwrittenExecutor, gone ? hint : ""));
  }
  std::set<std::string_view> known;
  for (const Algorithm& row : algorithms()) {
    if (handwritten_loop(row.collective, row.name) != HandwrittenLoop::None) known.insert(row.name);
  }
  if (overrides.algorithm.empty() || known.contains(overrides.algorithm)) return {};
  return invalid_argument(fmt::format("executor = {}: the algorithm '{}' has no handwritten loop; these have one: {}",
                                      overrides.executor, overrides.algorithm, fmt::join(known, " ")));
}

// Checks that a text is UTF-8, since rank 0 sends its options to the others in JSON.
Status check_text(std::string_view option, const std::string& value) {
  const Json text(value);
  try {
    static_cast<void>(text.dump());
  } catch (const JsonError&) {
    const std::string shown = text.dump({.strict = false});
    return invalid_argument(fmt::format("{} = {}: must be UTF-8", option, shown));
  }
  return {};
}

Status check(const Overrides& overrides) {
  WREATH_TRY(check_algorithm(overrides.algorithm));
  WREATH_TRY(check_executor(overrides));
  if (!std::has_single_bit(overrides.slot_count) || overrides.slot_count > kMaximumSlotCount) {
    return invalid_argument(fmt::format("overrides.slot_count = {}: must be a power of two, at most {}",
                                        overrides.slot_count, kMaximumSlotCount));
  }
  if (overrides.lanes < 0 || overrides.lanes > kMaximumDataLanes) {
    return invalid_argument(fmt::format("lanes = {}: must be between 0 and {}", overrides.lanes, kMaximumDataLanes));
  }
  if (overrides.low_latency_bytes > kMostLowLatencyBytes) {
    return invalid_argument(fmt::format("low_latency_bytes (WREATH_LOW_LATENCY_BYTES) = {}: must be {} at most",
                                        overrides.low_latency_bytes, kMostLowLatencyBytes));
  }
  if (overrides.exchange_rounds < 0) {
    return invalid_argument(fmt::format("exchange_rounds = {}: must be 0 or more", overrides.exchange_rounds));
  }
  return {};
}

Status check(const CommunicatorOptions& options) {
  const std::vector<std::string_view> known = transport_names();
  for (const std::string& name : options.transports) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return invalid_argument(fmt::format("transport '{}' does not exist; these do: {}", name, fmt::join(known, " ")));
  }
  WREATH_TRY(check_device_names(options.device));
  WREATH_TRY(check_text("trace", options.debug.trace));
  WREATH_TRY(check_text("faults", options.debug.faults));
  WREATH_TRY(check(options.overrides));
  if (options.debug.longest_sleep_ms < 0 || options.debug.longest_sleep_ms > Progress::kForever) {
    return invalid_argument(fmt::format("longest_sleep_ms = {}: must be between 0 and {}",
                                        options.debug.longest_sleep_ms, Progress::kForever));
  }
  for (const auto timeout : kTimeouts) {
    const std::int64_t value = options.timeouts.*timeout;
    if (value <= 0) return invalid_argument(fmt::format("a timeout of {} ms: must be positive", value));
  }
  return {};
}

// Warns once per process for each file.
void warn_once(const std::string& path, const Error& reason) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (told.insert(path).second) log_warning("this machine's tuning is not used: {}", reason.message);
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Reads the rules that communicators take from a file.
Result<MeasuredRules> rules_of(const std::string& path, bool reproducible) {
  const Result<Tuning> tuning = read_tuning(path);
  if (!tuning) return tuning.error();
  WREATH_TRY(check_origin(*tuning, path));
  auto rules = MeasuredRules::of(*tuning, reproducible);
  if (!rules) return invalid_argument(fmt::format("{}: {}", path, rules.error().message));
  return rules;
}

}  // namespace

Result<AgreedOptions> complete_options(const CommunicatorOptions& options) {
  warn_unknown_settings();
  AgreedOptions complete = options;
  WREATH_TRY(fill_from_environment(complete));
  WREATH_TRY(fill_sockets(complete.tcp_sockets));
  WREATH_TRY(check(complete));
  for (const auto timeout : kTimeouts) complete.timeouts.*timeout = std::min(complete.timeouts.*timeout, kLongestMs);
  return complete;
}

Status read_rules(AgreedOptions& options) {
  if (options.tuning == kNoTuning) return {};
  const bool named = !options.tuning.empty();
  const std::string path = named ? options.tuning : default_tuning_path();
  if (!named && (path.empty() || !exists(path))) return {};
  Result<MeasuredRules> rules = rules_of(path, options.reproducible);
  if (!rules && named) return invalid_argument(fmt::format("tuning: {}", rules.error().message));
  if (!rules) {
    warn_once(path, rules.error());
    return {};
  }
  options.measured = *std::move(rules);
  log_info("choices by measurement: {}", path);
  return {};
}

std::string encode_options(const AgreedOptions& options) {
  const Overrides& overrides = options.overrides;
  const Json text{{"transports", options.transports},
                  {"algorithm", overrides.algorithm},
                  {"executor", overrides.executor},
                  {"lanes", overrides.lanes},
                  {"tile_bytes", overrides.tile_bytes},
                  {"reproducible", options.reproducible},
                  {"check_wires", options.check_wires},
                  {"slot_count", overrides.slot_count},
                  {"buffer_bytes", overrides.buffer_bytes},
                  {"single_copy_bytes", overrides.single_copy_bytes},
                  {"low_latency_bytes", overrides.low_latency_bytes},
                  {"first_sequence", options.debug.first_sequence},
                  {"longest_sleep_ms", options.debug.longest_sleep_ms},
                  {"exchange_rounds", overrides.exchange_rounds},
                  {"faults", options.debug.faults},
                  {"trace", options.debug.trace},
                  {"measured", options.measured.to_text()},
                  {"tcp_sockets", options.tcp_sockets},
                  {"bootstrap_ms", options.timeouts.bootstrap_ms},
                  {"late_warning_ms", options.timeouts.late_warning_ms},
                  {"arrival_ms", options.timeouts.arrival_ms},
                  {"stall_ms", options.timeouts.stall_ms}};
  return text.dump({.sorted = true});
}

Result<AgreedOptions> decode_options(const std::string& text) {
  AgreedOptions options;
  std::string measured;
  try {
    const Json json = Json::parse(text);
    Overrides& overrides = options.overrides;
    options.transports = json.at("transports").get<std::vector<std::string>>();
    overrides.algorithm = json.at("algorithm").get<std::string>();
    overrides.executor = json.at("executor").get<std::string>();
    overrides.lanes = json.at("lanes").get<int>();
    overrides.tile_bytes = json.at("tile_bytes").get<std::size_t>();
    options.reproducible = json.at("reproducible").get<bool>();
    options.check_wires = json.at("check_wires").get<bool>();
    overrides.slot_count = json.at("slot_count").get<std::uint32_t>();
    overrides.buffer_bytes = json.at("buffer_bytes").get<std::size_t>();
    overrides.single_copy_bytes = json.at("single_copy_bytes").get<std::size_t>();
    overrides.low_latency_bytes = json.at("low_latency_bytes").get<std::size_t>();
    options.debug.first_sequence = json.at("first_sequence").get<std::uint32_t>();
    options.debug.longest_sleep_ms = json.at("longest_sleep_ms").get<std::int64_t>();
    overrides.exchange_rounds = json.at("exchange_rounds").get<int>();
    options.debug.faults = json.at("faults").get<std::string>();
    options.debug.trace = json.at("trace").get<std::string>();
    measured = json.at("measured").get<std::string>();
    options.tcp_sockets = json.at("tcp_sockets").get<std::int64_t>();
    options.timeouts.bootstrap_ms = json.at("bootstrap_ms").get<std::int64_t>();
    options.timeouts.late_warning_ms = json.at("late_warning_ms").get<std::int64_t>();
    options.timeouts.arrival_ms = json.at("arrival_ms").get<std::int64_t>();
    options.timeouts.stall_ms = json.at("stall_ms").get<std::int64_t>();
  } catch (const JsonError& failure) {
    return Error{ErrorCode::StartupFailed, fmt::format("rank 0's settings cannot be read: {}", failure.what()), 0};
  }
  WREATH_TRY(check(options));
  const SettingRow& sockets = row(Setting::TcpSockets);
  if (options.tcp_sockets < 0 || options.tcp_sockets > sockets.maximum) {
    return invalid_argument(fmt::format("tcp_sockets = {}: must be between {} and {}, or 0 for auto",
                                        options.tcp_sockets, sockets.minimum, sockets.maximum));
  }
  auto rules = MeasuredRules::parse(measured);
  if (!rules) return Error{ErrorCode::StartupFailed, fmt::format("rank 0's tuning: {}", rules.error().message), 0};
  options.measured = *std::move(rules);
  return options;
}

}  // namespace wreath
