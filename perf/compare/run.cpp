// Runs the rounds and starts, and reads their results.
#include "perf/compare/run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "perf/base/sizes.hpp"
#include "perf/compare/processes.hpp"
#include "perf/limits/shm.hpp"
#include "src/json/value.hpp"

namespace wreath::perf {
namespace {

// A temporary folder that the destructor removes.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "wreath-compare-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<std::string> flags_of(const RunOptions& options, const std::vector<std::size_t>& sizes,
                                  const std::string& json) {
  std::vector<std::string> texts;
  for (const std::size_t size : sizes) texts.push_back(format_bytes(size));
  std::vector<std::string> flags{"--sizes",  fmt::format("{}", fmt::join(texts, ",")),
                                 "--time",   fmt::format("{:g}", options.time_ms),
                                 "--place",  "out",
                                 "-a",       "3",
                                 "-w",       "5",
                                 "--memory", "host",
                                 "--json",   json};
  if (options.rewrite) flags.emplace_back("--rewrite");
  if (options.alternate) flags.emplace_back("--alternate");
  return flags;
}

// Returns those of `sizes` that have no result of this setting in this round.
std::vector<std::size_t> lacking(const Comparison& comparison, const Contestants& contestants, const Setting& setting,
                                 int round, const std::vector<std::size_t>& sizes) {
  std::vector<std::size_t> list;
  for (const std::size_t bytes : sizes) {
    const auto cell = comparison.cells.find({contestants.transport, contestants.operation, bytes});
    const auto* times = cell == comparison.cells.end() ? nullptr : [&]() -> const Times* {
      const auto found = cell->second.find(std::string(setting.code));
      return found == cell->second.end() ? nullptr : &found->second;
    }();
    if (times == nullptr || !times->us.contains(round)) list.push_back(bytes);
  }
  return list;
}

Status keep(const std::string& path, const Contestants& contestants, const Setting& setting, int round,
            Comparison& comparison) {
  std::ifstream file(path);
  try {
    const auto report = Json::parse(file);
    if (report.text_or("end_time", "none").empty()) return Error{ErrorCode::System, "not all of its rows are there"};
    for (const auto& row : report.at("results")) {
      const auto& measured = row.at("out_of_place");
      Times& times = comparison.cells[{contestants.transport, contestants.operation, row.at("size").get<std::size_t>()}]
                                     [std::string(setting.code)];
      measured.at("time").get_to(times.us[round]);
      times.wrong += measured.at("nwrong").get<std::uint64_t>() > 0 ? 1 : 0;
    }
  } catch (const JsonError& error) {
    return Error{ErrorCode::System, fmt::format("no results: {}", error.what())};
  }
  return {};
}

// Measures one start of one setting. A wrong result is kept as a result, though the program exits with an error for it.
Status measure(const RunOptions& options, const Contestants& contestants, const Setting& setting, int round,
               const std::vector<std::size_t>& sizes, Comparison& comparison) {
  const Scratch scratch;
  if (scratch.path().empty()) return Error{ErrorCode::System, "no temporary folder can be made"};
  const std::string json = scratch.path() + "/result.json";
  const Start start =
      start_of(setting, options.ranks, {options.folder, scratch.path(), options.other_build, options.peers},
               contestants.operation + "_perf", flags_of(options, sizes, json));
  const Status ended = run_to_end(start, scratch.path() + "/log", options.timeout_ms);
  const Status kept = keep(json, contestants, setting, round, comparison);
  return ended ? kept : kept ? kept : ended;
}

}  // namespace

Status run_contest(const RunOptions& options, const std::vector<Contestants>& contestants, Comparison& comparison,
                   const Step& step) {
  const auto flag_ns = options.flag_ns ? options.flag_ns : [] { return flag_flight_ns(); };
  std::set<std::string> given_up;
  int starts = 0;
  for (const Contestants& each : contestants) starts += static_cast<int>(each.settings.size());
  int done = 0;
  for (int round = 0; round < options.rounds; ++round) {
    const double before_ns = flag_ns();
    bool measured = false;
    for (const Contestants& each : contestants) {
      for (std::size_t i = 0; i < each.settings.size(); ++i) {
        const Setting* setting = each.settings[round % 2 == 0 ? i : each.settings.size() - 1 - i];
        const std::string what =
            fmt::format("round {}: {} {} {}", round + 1, each.transport, each.operation, setting->shown);
        const std::string key = fmt::format("{} {} {}", each.transport, each.operation, setting->code);
        const auto sizes = lacking(comparison, each, *setting, round, options.sizes);
        step(++done, starts * options.rounds, what);
        if (sizes.empty() || given_up.contains(key)) continue;
        measured = true;
        const Status status = measure(options, each, *setting, round, sizes, comparison);
        if (status) continue;
        if (setting->library == &kWreath) return Error{status.error().code, what + ": " + status.error().message};
        given_up.insert(key);
        comparison.remarks.push_back(
            fmt::format("{} {} by {}: {}", each.transport, each.operation, setting->shown, status.error().message));
      }
    }
    if (measured) comparison.probes[round] = {before_ns, flag_ns()};
  }
  return {};
}

}  // namespace wreath::perf
