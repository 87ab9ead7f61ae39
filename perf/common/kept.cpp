// Reads a kept result, and finds its differences from a run.
#include "perf/common/kept.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>

#include "perf/base/machine.hpp"
#include "src/json/value.hpp"

namespace wreath::perf {
namespace {

std::string text_of(const Json& json, const char* key) { return json.text_or(key, ""); }

// Returns a number, or a text that is one. Returns 0 for anything else, and for numbers that no machine measures.
double number_of(const Json& json, const char* key) {
  constexpr double kMost = 1e15;
  const Json& found = json[key];
  double number = 0;
  if (found.is_number()) {
    number = found.get<double>();
  } else {
    const std::string text = json.text_or(key, "");
    std::from_chars(text.data(), text.data() + text.size(), number);
  }
  return std::abs(number) <= kMost ? number : 0;  // false for NaN
}

const Json& part(const Json& json, const char* key) {
  static const Json nothing = Json::object();
  const Json& found = json[key];
  return found.is_object() ? found : nothing;
}

std::string buffers_text(std::string_view memory, double offset, double unalign, double launches) {
  const std::string graphs = launches > 0 ? fmt::format(" graph of {:g} launches", launches) : "";
  return fmt::format("{} memory offset {:g} unalign {:g}{}", memory, offset, unalign, graphs);
}

// Says how inputs are in timed calls, and which calls these are.
// `together` says that rewritten calls begin together where ranks can. Results that do not say whether they did are
// from before that.
std::string inputs_text(bool rewrites, bool together, bool alternates) {
  return fmt::format("inputs {}{}{}", rewrites ? "rewritten" : "kept", together ? " common start" : "",
                     alternates ? " calls alternate" : "");
}

std::string timing_text(const std::string& inputs, bool checks, int average, bool both_places) {
  return fmt::format("{} {} -a {} {}", inputs, checks ? "checked" : "unchecked", average,
                     both_places ? "both places" : "out of place alone");
}

std::optional<KeptTime> time_of(const Json& row, const char* place) {
  const Json& json = part(row, place);
  KeptTime time{number_of(json, "time"), number_of(json, "alg_bw"), number_of(json, "bus_bw"), {}};
  if (time.time_us <= 0) return std::nullopt;
  const Json& repeats = part(part(row, "wreath"), place);
  const Json& samples = repeats["samples_us"];
  if (samples.is_array() && samples.size() >= kRoundsOfAnInterval) {
    time.interval_us = Interval{number_of(repeats, "low_us"), number_of(repeats, "high_us")};
  }
  return time;
}

KeptRow row_from(const Json& json) {
  KeptRow row;
  row.bytes = static_cast<std::size_t>(number_of(json, "size"));
  row.dtype = text_of(json, "type");
  row.op = text_of(json, "redop");
  row.root = static_cast<int>(number_of(json, "root"));
  row.plan = text_of(part(part(json, "wreath"), "plan"), "text");
  row.out_of_place = time_of(json, "out_of_place");
  row.in_place = time_of(json, "in_place");
  return row;
}

// Reads the ranks and hosts from the list of devices, since files of nccl-tests do not state their numbers.
void read_ranks(const Json& config, Setup& setup) {
  const Json& devices = config["devices"];
  if (!devices.is_array()) return;
  std::set<std::string> hosts;
  for (const Json& each : devices) hosts.insert(text_of(each, "hostname"));
  setup.ranks = static_cast<int>(devices.size());
  setup.hosts = static_cast<int>(hosts.size());
}

Setup setup_from(const Json& json) {
  const Json& own = part(json, "wreath");
  const Json& config = part(json, "config");
  Setup setup;
  const Json& args = json["args"];
  if (args.is_array() && !args.empty() && args[0].is_string()) {
    setup.program = std::filesystem::path(args[0].get<std::string>()).filename().string();
  }
  read_ranks(config, setup);
  if (own.empty()) return setup;
  if (own.contains("tool")) setup.program = text_of(own, "tool");
  setup.cpu = text_of(part(own, "machine"), "cpu");
  setup.transport = text_of(own, "transport");
  setup.buffers = buffers_text(text_of(own, "memory"), number_of(own, "offset_bytes"),
                               number_of(own, "unalign_elements"), number_of(own, "graph_launches"));
  const auto in_place_absent = [](const Json& row) { return !part(row, "in_place").contains("time"); };
  const auto is_set = [&](const char* flag) { return own[flag].is_boolean() && own[flag].get<bool>(); };
  const Json& rows = json["results"];
  setup.timing = timing_text(
      inputs_text(is_set("rewrite"), is_set("rewrite") && own.contains("common_start"), is_set("alternate")),
      number_of(config, "validation") > 0, static_cast<int>(number_of(own, "average_mode")),
      !std::all_of(rows.begin(), rows.end(), in_place_absent));
  return setup;
}

template <typename T>
void compare(std::string_view what, const T& kept, const T& now, std::vector<std::string>& list) {
  if (kept != T{} && now != T{} && kept != now) list.push_back(fmt::format("{} {}, here {}", what, kept, now));
}

}  // namespace

Setup setup_of(const CollectiveRow& row, const Options& options, int ranks) {
  Setup setup;
  setup.program = std::string(row.program);
  setup.cpu = cpu_name();
  setup.ranks = ranks;
  setup.buffers = buffers_text(name(options.memory), static_cast<double>(options.offset),
                               static_cast<double>(options.unalign), static_cast<double>(options.graph_launches));
  setup.timing =
      timing_text(inputs_text(options.rewrite, options.rewrite, options.alternate), options.check > 0,
                  static_cast<int>(options.average), !options.only_out_of_place && !row.has(kNothingToReuse));
  return setup;
}

Setup setup_of(const Report& report) {
  Setup setup = setup_of(*report.collective, report.options, report.world);
  std::set<std::string> hosts;
  for (const RankLine& line : report.ranks) hosts.insert(line.host);
  setup.hosts = static_cast<int>(hosts.size());
  setup.transport = report.transport;
  if (!report.ranks.empty()) setup.cpu = report.ranks.front().cpu;
  return setup;
}

std::vector<std::string> differences(const Setup& kept, const Setup& now) {
  std::vector<std::string> list;
  compare("tool", kept.program, now.program, list);
  compare("processor", kept.cpu, now.cpu, list);
  compare("ranks", kept.ranks, now.ranks, list);
  compare("hosts", kept.hosts, now.hosts, list);
  compare("transport", kept.transport, now.transport, list);
  compare("buffers", kept.buffers, now.buffers, list);
  compare("timing", kept.timing, now.timing, list);
  return list;
}

const KeptRow* Kept::find(const Report& report, const Case& work) const {
  const auto same = [&](const KeptRow& row) {
    return row.bytes == work.bytes && row.dtype == table_name(work.kind.dtype) && row.op == shown_op(report, work) &&
           row.root == shown_root(report, work);
  };
  const auto found = std::find_if(rows.begin(), rows.end(), same);
  return found == rows.end() ? nullptr : &*found;
}

std::string Kept::label(const Setup& now) const {
  std::vector<std::string> apart;
  if (setup.transport != now.transport && !setup.transport.empty()) apart.push_back(setup.transport);
  if (setup.ranks != now.ranks && setup.ranks > 0) apart.push_back(fmt::format("{} ranks", setup.ranks));
  const std::string file = std::filesystem::path(path).filename().string();
  return apart.empty() ? file : fmt::format("{} ({})", file, fmt::join(apart, ", "));
}

Result<Kept> read_kept(std::string_view flag, const std::string& path) {
  const auto error = [&](std::string_view why) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{} {}: {}", flag, path, why)};
  };
  std::ifstream file(path);
  if (!file) return error("cannot be read");
  const Json json = Json::read(file).value_or(Json());
  if (!json["results"].is_array()) {
    return error("not a result that a perf tool wrote with --json");
  }
  Kept kept;
  kept.path = path;
  kept.setup = setup_from(json);
  kept.commit = text_of(part(json, "wreath"), "commit");
  kept.start_time = text_of(json, "start_time");
  for (const Json& row : json["results"]) {
    if (row.is_object()) kept.rows.push_back(row_from(row));
  }
  if (kept.rows.empty()) return error("it has no rows");
  return kept;
}

}  // namespace wreath::perf
