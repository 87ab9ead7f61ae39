// start_perf: measures the time of a job from the creation of its communicators to its first result, with ranks as
// processes.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "perf/base/flags.hpp"
#include "perf/base/machine.hpp"
#include "perf/base/statistics.hpp"
#include "perf/common/launch.hpp"
#include "src/base/text_file.hpp"
#include "src/command_line/numbers.hpp"
#include "src/command_line/program.hpp"
#include "src/json/value.hpp"
#include "wreath/communicator.hpp"
#include "wreath/types.hpp"

namespace wreath::perf {
namespace {

struct Options {
  std::vector<int> ranks{4, 64};
  int rounds = 7;
  std::string transport;
  std::string json_path;
  int start_descriptor = -1;  // of a process that launch() started
  // The descriptor of a file with one Times for each rank.
  int times_descriptor = -1;
};

// The times of a rank on the host's monotonic clock.
struct Times {
  std::int64_t begun_ns = 0;  // before the communicator is made
  std::int64_t made_ns = 0;
  std::int64_t first_ns = 0;  // the first result
};

struct Row {
  int ranks = 0;
  Statistics made_ms;   // the slowest rank's
  Statistics first_ms;  // the slowest rank's
  Statistics job_ms;    // from the first rank's begin to the last one's result
};

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

using command_line::fail;

int run_rank(const Options& options) {
  const auto place = read_place(options.start_descriptor);
  if (!place) return fail(place.error());
  CommunicatorOptions wanted;
  if (!options.transport.empty()) wanted.transports = {options.transport};
  Times times;
  times.begun_ns = now_ns();
  auto communicator = Communicator::create(place->id, place->process, place->processes, wanted);
  if (!communicator) return fail(communicator.error());
  times.made_ns = now_ns();
  float values[2] = {1, 2};
  const Status summed = communicator->all_reduce(values, values, 2, DataType::Float32);
  times.first_ns = now_ns();
  if (!summed) return fail(summed.error());
  if (values[1] != 2 * static_cast<float>(place->processes)) return fail(1, "the first result is wrong");
  const auto at = static_cast<off_t>(sizeof times) * place->process;
  const bool written = ::pwrite(options.times_descriptor, &times, sizeof times, at) == sizeof times;
  return written ? 0 : fail(1, "cannot write the times");
}

double ms(std::int64_t ns) { return static_cast<double>(ns) / 1e6; }

struct Samples {
  std::vector<double> made, first, job;
};

// Starts the job once, and returns its exit code.
int start_once(int ranks, const std::vector<std::string>& command, int file, Samples& samples) {
  const int code = launch(ranks, 1, command);
  if (code != 0) return code;
  std::vector<Times> all(static_cast<std::size_t>(ranks));
  const std::size_t bytes = all.size() * sizeof(Times);
  if (::pread(file, all.data(), bytes, 0) != static_cast<ssize_t>(bytes)) return fail(1, "ranks told no times");
  std::int64_t made = 0;
  std::int64_t first = 0;
  std::int64_t begin = all.front().begun_ns;
  std::int64_t end = 0;
  for (const Times& times : all) {
    made = std::max(made, times.made_ns - times.begun_ns);
    first = std::max(first, times.first_ns - times.begun_ns);
    begin = std::min(begin, times.begun_ns);
    end = std::max(end, times.first_ns);
  }
  samples.made.push_back(ms(made));
  samples.first.push_back(ms(first));
  samples.job.push_back(ms(end - begin));
  return 0;
}

Json json_of(const Statistics& times) {
  return {{"median", times.p50}, {"minimum", times.minimum}, {"maximum", times.maximum}};
}

Status write_json(const Options& options, const std::vector<Row>& rows) {
  Json report{{"cpu", cpu_name()},        {"cores", allowed_cores().size()}, {"commit", WREATH_COMMIT},
              {"rounds", options.rounds}, {"transport", options.transport},  {"rows", Json::array()}};
  for (const Row& row : rows) {
    report["rows"].push_back({{"ranks", row.ranks},
                              {"made_ms", json_of(row.made_ms)},
                              {"first_result_ms", json_of(row.first_ms)},
                              {"job_ms", json_of(row.job_ms)}});
  }
  return write_output(options.json_path, report.dump({.indent = 2, .sorted = true}) + "\n");
}

int measure(const Options& options, const std::string& program) {
  // The started processes inherit this file.
  const int file = ::memfd_create("times", 0);
  if (file < 0) return fail(6, "cannot make a file for the times");
  std::vector<std::string> command{program, "--times-descriptor", std::to_string(file)};
  if (!options.transport.empty()) command.insert(command.end(), {"--transport", options.transport});
  fmt::print("# from making the communicator to the first result (8 bytes, all_reduce), ms; ranks are processes\n");
  fmt::print("# median of {} starts, the slowest rank of each; {} cores\n", options.rounds, allowed_cores().size());
  fmt::print("{:>6} {:>10} {:>14} {:>10} {:>10} {:>12}\n", "ranks", "made", "first result", "fastest", "slowest",
             "whole job");
  std::vector<Row> rows;
  for (const int ranks : options.ranks) {
    Samples samples;
    for (int round = 0; round < options.rounds; ++round) {
      const int code = start_once(ranks, command, file, samples);
      if (code != 0) return code;
    }
    rows.push_back({ranks, summarize(samples.made), summarize(samples.first), summarize(samples.job)});
    const Row& row = rows.back();
    fmt::print("{:>6} {:>10.1f} {:>14.1f} {:>10.1f} {:>10.1f} {:>12.1f}\n", ranks, row.made_ms.p50, row.first_ms.p50,
               row.first_ms.minimum, row.first_ms.maximum, row.job_ms.p50);
    std::fflush(stdout);
  }
  ::close(file);
  const Status written = options.json_path.empty() ? Status() : write_json(options, rows);
  if (!written) return fail(exit_code(written.error().code), "--json: " + written.error().message);
  return 0;
}

int run(int argc, char** argv) {
  const command_line::Program app{"Measures how long a job takes to start.", "start_perf"};
  Options options;
  command_line::add_numbers(app, "--ranks", options.ranks, {1, kMaximumRanks}, "numbers of ranks (4,64)")
      .delimiter(',');
  command_line::add_number(app, "--rounds", options.rounds, {1, 1000}, "starts of each (7)");
  app.add_option("--transport", options.transport, "the allowed transport; all when left out").check(check_transport);
  app.add_option("-J,--json", options.json_path, "numbers").check(check_output_file);
  app.add_option("--start-descriptor", options.start_descriptor).group("");
  app.add_option("--times-descriptor", options.times_descriptor).group("");
  if (const auto code = app.parse(argc, argv)) return *code;
  if (options.start_descriptor >= 0) return run_rank(options);
  const Status once = check_started_once();
  return once ? measure(options, argv[0]) : fail(once.error());
}

}  // namespace
}  // namespace wreath::perf

int main(int argc, char** argv) {
  return wreath::command_line::run_main([&] { return wreath::perf::run(argc, argv); });
}
