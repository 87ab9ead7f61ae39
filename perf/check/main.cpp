// wreath_check: compares all collectives with exact results, over transports and rank counts, and prints a table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "perf/base/flags.hpp"
#include "perf/check/check.hpp"
#include "perf/common/launch.hpp"
#include "perf/common/run.hpp"
#include "src/base/available_memory.hpp"
#include "src/command_line/numbers.hpp"
#include "src/command_line/program.hpp"
#include "wreath/transport.hpp"

namespace wreath::perf {
namespace {

constexpr int kWrong = 1;
constexpr std::string_view kLine = "{:<16} {:<9} {:>5} {:>8} {:>8} {:>8}  {}\n";

struct Arguments {
  std::vector<std::string> transports;  // empty: all that work here
  std::vector<int> ranks{1, 2, 3, 5, 7, 16};
  std::string only;  // a collective's title; empty: all
  std::string pass;  // of a started process: its pass
  int start_descriptor = -1;
};

// The starts of a pass: one for each transport and rank count.
struct Pass {
  std::string_view name;
  Result<CheckResult> (*run)(Member& member, const CollectiveRow& row, const Progress& progress);
  std::string_view collective;  // empty: all
  std::vector<int> ranks;       // empty: the requested ones
  std::size_t bytes_per_rank;   // of memory
};

const std::vector<Pass>& passes() {
  static const std::vector<Pass> table{
      {"all", check_all, "", {}, 0},
      {"64 MiB", check_large, "all_reduce", {2, 4}, std::size_t{3} << 26},
      {"4.5 GiB", check_huge, "all_reduce", {2}, kHugeBytes + (std::size_t{256} << 20)},
  };
  return table;
}

std::string check_collective(const std::string& title) {
  std::vector<std::string_view> known;
  for (const CollectiveRow& row : collectives()) known.push_back(row.title());
  if (std::find(known.begin(), known.end(), title) != known.end()) return {};
  return fmt::format("'{}' is unknown; known are {}", title, fmt::join(known, ", "));
}

void print_line(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

Progress terminal_progress(const std::string& group) {
  return [show = stream_display(stdout, stderr).progress, group](const std::string& text) {
    show(text.empty() ? "" : group + text);
  };
}

bool asked_for(const Arguments& arguments, const Pass& pass, const CollectiveRow& row) {
  return (arguments.only.empty() || row.title() == arguments.only) &&
         (pass.collective.empty() || row.title() == pass.collective);
}

// Checks all collectives of the pass in a started process. Returns the exit code.
Result<int> check_group_of(Member& member, const Arguments& arguments, const Pass& pass) {
  const std::string& transport = arguments.transports.front();
  const bool shows = member.rank() == 0;
  const Progress progress =
      shows ? terminal_progress(fmt::format("{} x {}: ", transport, member.ranks())) : [](const std::string&) {};
  int code = 0;
  for (const CollectiveRow& row : collectives()) {
    if (!asked_for(arguments, pass, row) || !check_group(row, {}, member.ranks())) continue;
    const auto result = pass.run(member, row, progress);
    if (!result) return result.error();
    if (result->wrong > 0) code = kWrong;
    progress("");
    const std::string note = pass.name == "all" ? "" : std::string(pass.name);
    if (shows) {
      print_line(fmt::format(kLine, row.title(), transport, member.ranks(), result->rows, result->wrong,
                             fmt::format("{:.1f}", result->seconds), note));
    }
  }
  return code;
}

using command_line::fail;

int run_started(const Arguments& arguments) {
  const auto run = [&]() -> Result<int> {
    const auto place = read_place(arguments.start_descriptor);
    if (!place) return place.error();
    CommunicatorOptions options;
    options.transports = arguments.transports;
    auto communicator = Communicator::create(place->id, place->process, place->processes, options);
    if (!communicator) return communicator.error();
    CommunicatorMember member(*communicator);
    for (const Pass& pass : passes()) {
      if (pass.name == arguments.pass) return check_group_of(member, arguments, pass);
    }
    return 2;
  };
  const auto code = run();
  return code ? *code : fail(code.error());
}

// Starts the ranks of one pass, and returns whether all of them succeeded. A lack of memory is no failure.
bool start_group(const char* program, const Arguments& arguments, const Pass& pass, const std::string& transport,
                 int ranks) {
  const std::size_t needed = pass.bytes_per_rank * static_cast<std::size_t>(ranks);
  if (const std::uint64_t there = available_memory(); there < needed) {
    print_line(fmt::format(
        kLine, pass.collective, transport, ranks, "-", "-", "-",
        fmt::format("{} skipped: needs {:.1f} GiB of memory, {:.1f} are available", pass.name,
                    std::ldexp(static_cast<double>(needed), -30), std::ldexp(static_cast<double>(there), -30))));
    return true;
  }
  std::vector<std::string> command{program, "--transport", transport, "--pass", std::string(pass.name)};
  if (!arguments.only.empty()) command.insert(command.end(), {"--only", arguments.only});
  const int code = launch(ranks, 1, command);
  if (code != 0 && code != kWrong) {
    print_line(fmt::format(kLine, "", transport, ranks, "-", "-", "-", fmt::format("FAILED: exit code {}", code)));
  }
  return code == 0;
}

int run_all(const char* program, const Arguments& arguments) {
  print_line(fmt::format(kLine, "collective", "transport", "ranks", "rows", "wrong", "seconds", ""));
  bool well = true;
  for (const Pass& pass : passes()) {
    const auto serves = [&](const CollectiveRow& row) { return asked_for(arguments, pass, row); };
    if (std::none_of(collectives().begin(), collectives().end(), serves)) continue;
    // The largest pass takes minutes over a socket, and finds nothing there that shared memory does not show.
    const std::size_t transports = pass.bytes_per_rank > kHugeBytes ? 1 : arguments.transports.size();
    for (std::size_t i = 0; i < transports; ++i) {
      for (const int ranks : pass.ranks.empty() ? arguments.ranks : pass.ranks) {
        well = start_group(program, arguments, pass, arguments.transports[i], ranks) && well;
      }
    }
  }
  print_line(well ? "all results are right\n" : "FAILED\n");
  return well ? 0 : kWrong;
}

}  // namespace

int check_main(int argc, char** argv) {
  Arguments arguments;
  const command_line::Program app(
      "Holds every collective to exact results: all dtypes and operators, 8 to 300,001 bytes, aligned and not;\n"
      "then 64 MiB, and 4.5 GiB where there is memory. One line for each collective, transport and number of "
      "ranks.",
      "wreath_check");
  app.add_option("--transport", arguments.transports, "transports, each alone (default: all that work here)")
      .delimiter(',')
      .check(check_transport);
  command_line::add_numbers(app, "--ranks", arguments.ranks, {1, 256}, "numbers of ranks (1,2,3,5,7,16)")
      .delimiter(',');
  app.add_option("--only", arguments.only, "one collective, such as all_gather").check(check_collective);
  app.add_option("--pass", arguments.pass).group("");
  app.add_option("--start-descriptor", arguments.start_descriptor).group("");
  if (const auto code = app.parse(argc, argv)) return *code;
  if (arguments.start_descriptor >= 0) return run_started(arguments);
  if (arguments.transports.empty()) arguments.transports = usable_between_processes();
  const Status once = check_started_once();
  return once ? run_all(argv[0], arguments) : fail(once.error());
}

}  // namespace wreath::perf

int main(int argc, char** argv) {
  return wreath::command_line::run_main([&] { return wreath::perf::check_main(argc, argv); });
}
