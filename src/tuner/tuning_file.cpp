// Finds, writes and reads the file of `wreath tune`. The decoder is bounded and takes any text.
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

#include "src/base/config.hpp"
#include "src/base/hash.hpp"
#include "src/base/text_file.hpp"
#include "src/base/version.hpp"
#include "src/json/reader.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/topology.hpp"
#include "wreath/transport.hpp"
#include "wreath/tuning.hpp"
#include "wreath/types.hpp"

namespace wreath {
namespace {

constexpr std::string_view kFormat = "wreath-tuning";
constexpr std::int64_t kFormatVersion = 1;
constexpr std::size_t kMaximumFileBytes = std::size_t{4} << 20;
constexpr std::size_t kMaximumTimes = 20'000;
constexpr std::size_t kMaximumLimits = 2'000;
constexpr std::int64_t kMostFileTile = std::int64_t{1} << 30;
constexpr double kShortestUs = 1e-3;
constexpr double kLongestUs = 1e10;
constexpr std::string_view kMappedWord = "mapped";
constexpr std::string_view kWireWord = "wire";  // in older files: the wire of streams
constexpr std::string_view kDevice = "device";
constexpr std::string_view kHost = "host";

// Returns the value of a line "KEY : VALUE" of /proc/cpuinfo; empty where there is none.
std::string cpu_field(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with(key) && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

template <typename Entry>
Json call_to_json(const Entry& entry) {
  return {{"collective", name(entry.collective)},
          {"ranks", entry.ranks},
          {"links", entry.wire.empty() ? kMappedWord : entry.wire},
          {"bytes", entry.bytes}};
}

// Returns whether the member is `yes`; a missing member counts as `no`.
bool is(JsonReader& reader, const char* key, std::string_view yes, std::string_view no) {
  if (!reader.has(key)) return false;
  const std::string text = reader.text(key);
  if (text != yes && text != no) reader.refuse(key, fmt::format("is neither '{}' nor '{}'", yes, no));
  return text == yes;
}

// Returns the transport of that name, or of the word of older files, where it is a wire; empty for all others.
std::string_view wire_of(std::string_view links) {
  for (const TransportRow& row : transports()) {
    if (row.is_wire() && (row.name == links || (row.needs_stream && links == kWireWord))) return row.name;
  }
  return {};
}

// Reads what a time and a limit have in common.
template <typename Entry>
void call_from(JsonReader& reader, Entry& entry) {
  entry.collective = reader.choice<Collective>("collective", all_collectives());
  entry.ranks = static_cast<int>(reader.integer("ranks", 1, kMaximumRanks));
  const std::string links = reader.text("links");
  if (links != kMappedWord) entry.wire = wire_of(links);
  if (links != kMappedWord && entry.wire.empty())
    reader.refuse("links", fmt::format("is neither '{}' nor a wire of this library", kMappedWord));
  entry.bytes = static_cast<std::size_t>(reader.integer("bytes", 1, std::numeric_limits<std::int64_t>::max()));
  entry.time_us = reader.number("time_us", kShortestUs, kLongestUs);
}

// Returns whether the time is kept: older files hold some of loops that nothing chooses any more.
bool read_entry(JsonReader& reader, TuningTime& time) {
  call_from(reader, time);
  time.algorithm = reader.text("algorithm");
  if (find_algorithm(time.collective, time.algorithm) == nullptr) {
    reader.refuse("algorithm", fmt::format("is '{}', which this library does not have for {}",
                                           time.algorithm.substr(0, 40), name(time.collective)));
  }
  time.tile_bytes = static_cast<std::size_t>(reader.integer("tile_bytes", 0, kMostFileTile));
  time.device = is(reader, "memory", kDevice, kHost);
  return !is(reader, "executor", "straight", "steps");
}

bool read_entry(JsonReader& reader, TuningLimit& limit) {
  call_from(reader, limit);
  return true;
}

template <typename Entry>
void entries_from(JsonReader& reader, const char* key, std::size_t most, std::vector<Entry>& entries) {
  const Json* objects = reader.array(key, most);
  if (objects == nullptr) return;
  for (const Json& object : *objects) {
    const std::string place = fmt::format("entry {}: ", &object - &*objects->begin());
    if (!object.is_object()) return reader.refuse(key, place + "it is not an object");
    JsonReader each(object);
    Entry entry;
    if (read_entry(each, entry)) entries.push_back(std::move(entry));
    if (each.refusal()) return reader.refuse(key, place + *each.refusal());
  }
}

}  // namespace

std::string machine_name() {
  std::string cpu = cpu_field("model name");
  if (cpu.empty()) cpu = fmt::format("{}{}", cpu_field("CPU implementer"), cpu_field("CPU part"));
  if (cpu.empty()) {
    utsname system{};
    cpu = ::uname(&system) == 0 ? system.machine : "unknown";
  }
  return fmt::format("{}, {} processors", cpu, ::sysconf(_SC_NPROCESSORS_CONF));
}

std::string gpu_name() {
  const Topology topology = read_topology();
  const auto of_cuda = std::find_if(topology.gpus.begin(), topology.gpus.end(),
                                    [](const auto& gpu) { return gpu.driver.starts_with("nvidia"); });
  return of_cuda == topology.gpus.end() ? "unnamed" : of_cuda->name;
}

std::string default_tuning_path() {
  std::string cache = setting_text(Setting::CacheHome);
  // Relative folders are invalid, says the XDG base directory specification.
  if (!cache.starts_with('/')) {
    const std::string home = home_directory();
    if (home.empty()) return {};
    cache = home + "/.cache";
  }
  std::uint64_t hash = 0;
  for (const char c : machine_name()) hash = mix(hash, static_cast<unsigned char>(c));
  return fmt::format("{}/wreath/tuning-{:016x}.json", cache, hash);
}

Tuning empty_tuning() {
  Tuning tuning;
  tuning.machine = machine_name();
  tuning.library = library_version();
  return tuning;
}

std::string to_json(const Tuning& tuning) {
  Json object = {{"format", kFormat},         {"version", kFormatVersion}, {"library", tuning.library},
                 {"machine", tuning.machine}, {"device", tuning.device},   {"flag_ns", tuning.flag_ns},
                 {"limits", Json::array()},   {"times", Json::array()}};
  for (const TuningLimit& limit : tuning.limits) {
    Json each = call_to_json(limit);
    each["time_us"] = limit.time_us;
    object["limits"].push_back(std::move(each));
  }
  for (const TuningTime& time : tuning.times) {
    Json each = call_to_json(time);
    each["algorithm"] = time.algorithm;
    each["tile_bytes"] = time.tile_bytes;
    each["memory"] = time.device ? kDevice : kHost;
    each["time_us"] = time.time_us;
    object["times"].push_back(std::move(each));
  }
  return object.dump({.indent = 1, .strict = false}) + "\n";
}

Result<Tuning> parse_tuning(std::string_view text, std::string_view source) {
  const auto wrong = [&](std::string_view reason) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{}: {}", source, reason)};
  };
  const auto object = parse_object(text, source, kMaximumFileBytes);
  if (!object) return object.error();
  JsonReader reader(*object);
  if (reader.text("format") != kFormat) reader.refuse("format", fmt::format("is not '{}'", kFormat));
  reader.integer("version", kFormatVersion, kFormatVersion);
  Tuning tuning;
  tuning.library = reader.text("library");
  tuning.machine = reader.text("machine");
  if (reader.has("device")) tuning.device = reader.text("device");
  tuning.flag_ns = reader.number("flag_ns", 0, kLongestUs);
  entries_from(reader, "limits", kMaximumLimits, tuning.limits);
  entries_from(reader, "times", kMaximumTimes, tuning.times);
  if (reader.refusal()) return wrong(*reader.refusal());
  return tuning;
}

Result<Tuning> read_tuning(const std::string& path) {
  const Result<std::string> text = read_file(path, kMaximumFileBytes);
  if (!text) return text.error();
  return parse_tuning(*text, path);
}

Status check_origin(const Tuning& tuning, std::string_view source) {
  const auto other = [&](std::string_view what, std::string_view there, std::string_view here) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("{}: it is of another {} ('{}', this is '{}'): run `wreath tune`", source, what,
                             there.substr(0, 120), here)};
  };
  if (tuning.library != library_version()) return other("version of the library", tuning.library, library_version());
  if (tuning.machine != machine_name()) return other("machine", tuning.machine, machine_name());
  if (!tuning.device.empty() && tuning.device != gpu_name()) return other("GPU", tuning.device, gpu_name());
  return {};
}

Status write_tuning(const Tuning& tuning, const std::string& path) {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  if (failed) {
    return Error{ErrorCode::System, fmt::format("cannot make the folder {}: {}", folder.string(), failed.message())};
  }
  return write_output(path, to_json(tuning));
}

}  // namespace wreath
