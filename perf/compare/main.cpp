// compare: measures this library beside Open MPI, MPICH, Intel MPI and Gloo, each at its best setting, in turns.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "perf/base/flags.hpp"
#include "perf/base/machine.hpp"
#include "perf/base/sizes.hpp"
#include "perf/common/launch.hpp"
#include "perf/compare/builds.hpp"
#include "perf/compare/network.hpp"
#include "perf/compare/run.hpp"
#include "src/base/text_file.hpp"
#include "src/command_line/numbers.hpp"
#include "src/command_line/program.hpp"
#include "src/json/value.hpp"

namespace wreath::perf {
namespace {

struct Arguments {
  RunOptions run;
  std::vector<int> ranks;
  std::vector<std::string> transports = compared_transports();
  std::vector<std::string> operations{"all_reduce", "reduce_scatter", "all_gather",
                                      "broadcast",  "alltoall",       "sendrecv"};
  std::vector<std::string> sizes{"8", "32K", "256K", "2M", "64M"};
  bool full = false;
  bool find_settings = false;
  std::string congestion_control;
  std::string settings_file;
  std::string resume_file;
  std::string json_file;
  std::string html_file;
  std::string peer_build;
  int near_pairs = 40;
};

using command_line::fail;

// Returns the codes that were kept for a transport and operation; empty: none were kept.
std::set<std::string> kept_codes(const std::string& path, const std::string& transport, const std::string& operation) {
  std::ifstream file(path);
  const Json json = Json::read(file).value_or(Json());
  std::set<std::string> codes;
  for (const auto& each : json["best"]) {
    if (each.text_or("transport", "") == transport && each.text_or("operation", "") == operation) {
      codes.insert(each.text_or("setting", ""));
    }
  }
  return codes;
}

std::vector<Contestants> contestants_of(const Arguments& arguments, std::set<std::string>& lacking) {
  std::vector<Contestants> list;
  const bool all = arguments.full || arguments.find_settings || arguments.settings_file.empty();
  for (const std::string& transport : arguments.transports) {
    for (const std::string& operation : arguments.operations) {
      const auto kept = all ? std::set<std::string>{} : kept_codes(arguments.settings_file, transport, operation);
      Contestants each{transport, operation, {}};
      for (const Setting& setting : settings()) {
        const std::string code(setting.code);
        if (setting.transport() != transport || setting.library == &kOtherBuild) continue;
        if (setting.library != &kWreath && !kept.empty() && !kept.contains(code)) continue;
        const std::string lack = missing(setting, {arguments.run.folder, "", "", arguments.run.peers});
        lack.empty() ? each.settings.push_back(&setting) : void(lacking.insert(lack));
      }
      list.push_back(std::move(each));
    }
  }
  return list;
}

Status write_text(const std::string& path, const std::string& text) {
  return path.empty() ? Status() : write_output(path, text);
}

// Returns as JSON the setting of any peer that was fastest in each cell.
std::string settings_json(const Comparison& comparison) {
  Json json = {{"machine", comparison.machine}, {"started", comparison.started}, {"ranks", comparison.ranks}};
  json["best"] = Json::array();
  for (const auto& [cell, contest] : comparison.cells) {
    const auto verdict = judge(contest);
    if (!verdict || verdict->best.empty()) continue;
    json["best"].push_back({{"transport", cell.transport},
                            {"operation", cell.operation},
                            {"bytes", cell.bytes},
                            {"setting", verdict->best},
                            {"us", verdict->best_us}});
  }
  return json.dump({.indent = 1}) + "\n";
}

// Shows the current step: in place on a terminal, else as a line for every twentieth step.
void show_step(int done, int all, const std::string& what) {
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  if (terminal) fmt::print(stderr, "\r\033[K{} of {}: {}", done, all, what);
  if (!terminal && done % 20 == 1) fmt::print(stderr, "{} of {}: {}\n", done, all, what);
  std::fflush(stderr);
}

void end_steps() {
  if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K");
}

Comparison blank(const Arguments& arguments, const std::string& command) {
  return {command,
          WREATH_COMMIT,
          cpu_name(),
          now_text(),
          arguments.run.ranks,
          congestion_control(),
          {},
          {},
          {},
          calls_text(arguments.run)};
}

int compare_builds(Arguments& arguments, const std::string& command) {
  arguments.run.other_build = arguments.peer_build + "/bin";
  for (const std::string& operation : arguments.operations) {
    for (const std::string& folder : {arguments.run.folder, arguments.run.other_build}) {
      const std::string program = fmt::format("{}/{}_perf", folder, operation);
      if (::access(program.c_str(), X_OK) != 0) return fail(2, "--peer-build: there is no program " + program);
    }
  }
  const BuildsOptions options{arguments.run, arguments.ranks, arguments.transports, arguments.operations,
                              arguments.near_pairs};
  const auto report = run_builds(options, blank(arguments, command), show_step);
  end_steps();
  if (!report) return fail(1, report.error().message);
  fmt::print("{}", to_text(*report, arguments.near_pairs));
  const Status json = write_text(arguments.json_file, to_json(*report, arguments.near_pairs));
  if (!json) return fail(json.error());
  return exit_code(*report);
}

int compare(Arguments& arguments, const std::string& command) {
  Comparison comparison = blank(arguments, command);
  if (!arguments.resume_file.empty() && std::filesystem::exists(arguments.resume_file)) {
    auto read = read_comparison(arguments.resume_file);
    if (!read) return fail(2, "--resume " + read.error().message);
    comparison = *std::move(read);
    if (comparison.ranks != arguments.run.ranks) {
      return fail(2, fmt::format("--resume {}: it has {} ranks", arguments.resume_file, comparison.ranks));
    }
    if (comparison.calls != calls_text(arguments.run)) {
      return fail(2, fmt::format("--resume {}: its calls were timed in another way ('{}', here '{}')",
                                 arguments.resume_file, comparison.calls, calls_text(arguments.run)));
    }
    if (!comparison.congestion_control.empty() && comparison.congestion_control != congestion_control()) {
      return fail(2, fmt::format("--resume {}: its TCP was under '{}', here it is '{}'", arguments.resume_file,
                                 comparison.congestion_control, congestion_control()));
    }
  }
  std::set<std::string> lacking;
  const auto contestants = contestants_of(arguments, lacking);
  for (const std::string& each : lacking) fmt::print(stderr, "wreath: warning: left out: {} is not here\n", each);
  const auto step = [&](int done, int all, const std::string& what) {
    const Status kept = write_text(arguments.resume_file, to_json(comparison));
    if (!kept) fmt::print(stderr, "wreath: warning: --resume: {}\n", kept.error().message);
    show_step(done, all, what);
  };
  const Status status = run_contest(arguments.run, contestants, comparison, step);
  end_steps();
  const Status kept = write_text(arguments.resume_file, to_json(comparison));
  if (!status) return fail(1, status.error().message);
  fmt::print("{}", to_text(comparison));
  const Status settings =
      arguments.find_settings ? write_text(arguments.settings_file, settings_json(comparison)) : Status();
  const Status json = write_text(arguments.json_file, to_json(comparison));
  const Status html = write_text(arguments.html_file, to_html(comparison));
  for (const Status* each : {&kept, &settings, &json, &html}) {
    if (!*each) return fail(each->error());
  }
  return wrong_results(comparison.cells) > 0 ? 1 : 0;
}

void add_flags(const command_line::Command& app, Arguments& arguments) {
  command_line::add_numbers(app, "--ranks", arguments.ranks, {2, 256}, "ranks (2; with --peer-build 2,4)")
      .delimiter(',');
  const std::string transports = fmt::format("transports ({})", fmt::join(compared_transports(), ","));
  app.add_option("--transport", arguments.transports, transports).one_of(compared_transports()).delimiter(',');
  const char* const meaning = "operations, by the perf tools' names without _perf (six)";
  app.add_option("--operation", arguments.operations, meaning)
      .one_of(arguments.operations)
      .delimiter(',')
      .type_name("NAME");
  app.add_option("--sizes", arguments.sizes, "sizes (8,32K,256K,2M,64M)").delimiter(',');
  command_line::add_number(app, "--rounds", arguments.run.rounds, {1, 1000}, "rounds (8)");
  command_line::add_number(app, "--time", arguments.run.time_ms, {0.1, 1e6},
                           "milliseconds of timed calls of a size in a round (20)");
  app.add_flag("--alternate", arguments.run.alternate, "calls of two counts take turns, and roots do");
  app.add_flag("--rewrite", arguments.run.rewrite, "inputs are written anew before each timed call, outside the clock");
  app.add_option("--congestion-control", arguments.congestion_control,
                 "TCP's for every library, in a network namespace of this run's own; needs root (the system's)");
  app.add_flag("--full", arguments.full, "every setting of every peer, not the best ones alone");
  app.add_flag("--find-settings", arguments.find_settings, "every setting; keeps the best of each cell in --settings");
  app.add_option("--peers", arguments.run.peers, "newer peers than the system's, a folder each: openmpi5, mpich5, impi")
      .type_name("DIR");
  app.add_option("--settings", arguments.settings_file, "where the best settings are kept");
  app.add_option("--resume", arguments.resume_file, "saved after each start; one that exists is gone on with");
  app.add_option("--json", arguments.json_file, "all times and ratios").check(check_output_file);
  app.add_option("--html", arguments.html_file, "a page with plots").check(check_output_file);
  app.add_option("--peer-build", arguments.peer_build,
                 "another build folder of this library, in place of the other libraries; exit code 1: slower than it")
      .type_name("DIR");
  command_line::add_number(app, "--near-pairs", arguments.near_pairs, {0, 10000},
                           "with --peer-build: pairs of starts whose difference at 8 bytes is shown (40)");
  app.footer(
      "Every library runs the same loop of the perf tools on the same data, out of place, checked as\n"
      "there; a time is the slowest rank's. In each round each setting is started once for each operation; a ratio\n"
      "is the best peer's time over this library's in the same round. The interval holds the median with at least 90 "
      "%.");
}

int parse_and_run(int argc, char** argv) {
  Arguments arguments;
  const command_line::Program app(
      "Measures this library beside Open MPI, MPICH, Intel MPI and Gloo, each at its best setting, in turns.",
      "compare");
  add_flags(app, arguments);
  if (const auto code = app.parse(argc, argv)) return *code;
  if (const Status once = check_started_once(); !once) return fail(once.error());
  for (const std::string& text : arguments.sizes) {
    const auto size = parse_size(text);
    if (!size) return fail(2, "--sizes: '" + text + "' is not a size");
    arguments.run.sizes.push_back(*size);
  }
  const bool builds = !arguments.peer_build.empty();
  if (builds &&
      (arguments.full || arguments.find_settings || !arguments.resume_file.empty() || !arguments.html_file.empty())) {
    return fail(2, "--peer-build: not together with --full, --find-settings, --resume or --html");
  }
  if (arguments.ranks.empty()) arguments.ranks = builds ? std::vector{2, 4} : std::vector{2};
  if (!builds && arguments.ranks.size() > 1) return fail(2, "--ranks: several numbers need --peer-build");
  arguments.run.ranks = arguments.ranks.front();
  if (arguments.find_settings && arguments.settings_file.empty()) return fail(2, "--find-settings needs --settings");
  if (!arguments.congestion_control.empty()) {
    const auto entered = enter_own_network(arguments.congestion_control);
    if (!entered) return fail(77, "--congestion-control: " + entered.error().message);
  }
  arguments.run.folder = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  std::string command;
  for (int i = 0; i < argc; ++i) command.append(i == 0 ? "" : " ").append(argv[i]);
  return builds ? compare_builds(arguments, command) : compare(arguments, command);
}

}  // namespace
}  // namespace wreath::perf

int main(int argc, char** argv) {
  return wreath::command_line::run_main([&] { return wreath::perf::parse_and_run(argc, argv); });
}
