// Limits first, then ranks as processes, then the file.
#include "perf/tune/tune.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "perf/common/launch.hpp"
#include "perf/limits/shm.hpp"

namespace wreath::perf {
namespace {

int report(const Error& error) {
  fmt::print(stderr, "wreath: error: {}\n", error.message);
  return exit_code(error.code);
}

// Those of the table of algorithms that have several rows.
std::vector<Collective> all_choices() {
  std::vector<Collective> choices;
  for (const Collective collective : all_collectives()) {
    const auto rows = std::count_if(algorithms().begin(), algorithms().end(),
                                    [&](const Algorithm& row) { return row.collective == collective; });
    if (rows > 1) choices.push_back(collective);
  }
  return choices;
}

// The processes of one number of ranks; its times are added to `tuning`.
int measure_times(const TuneRequest& request, int ranks, double seconds, Tuning& tuning) {
  const std::string part = fmt::format("{}.{}.part", request.output, ::getpid());
  std::vector<std::string> command = request.command;
  command.insert(command.end(), {"--part-file", part, "--seconds", fmt::format("{:.1f}", seconds)});
  const int code = launch(ranks, 1, command);
  const Result<Tuning> measured = code == 0 ? read_tuning(part) : Result<Tuning>(empty_tuning());
  ::unlink(part.c_str());
  if (code != 0) return code;
  if (!measured) return report(measured.error());
  tuning.times.insert(tuning.times.end(), measured->times.begin(), measured->times.end());
  return 0;
}

}  // namespace

std::vector<std::size_t> tuned_sizes(const TuneRequest& request) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = request.smallest; bytes < request.largest; bytes *= 4) sizes.push_back(bytes);
  sizes.push_back(request.largest);
  return sizes;
}

int tune(const TuneRequest& asked) {
  TuneRequest request = asked;
  if (request.collectives.empty()) request.collectives = all_choices();
  if (request.start_descriptor >= 0) {
    const Status measured = measure_part(request);
    return measured ? 0 : report(measured.error());
  }
  if (const Status once = check_started_once(); !once) return report(once.error());
  if (request.output.empty()) request.output = default_tuning_path();
  if (request.output.empty()) {
    return report({ErrorCode::InvalidArgument, "--output: there is no cache folder: name a file"});
  }
  Tuning tuning = empty_tuning();
  if (const Status writable = write_tuning(tuning, request.output + ".part"); !writable)
    return report(writable.error());
  ::unlink((request.output + ".part").c_str());

  const auto start = std::chrono::steady_clock::now();
  const auto elapsed_s = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  fmt::print("# {}; ranks {}; over {}\n# limits of the machine ...\n", tuning.machine, fmt::join(request.ranks, " "),
             fmt::join(request.transports, " "));
  std::fflush(stdout);
  const double flag_ns = flag_flight_ns(kQuickEffort);
  tuning.flag_ns = std::isfinite(flag_ns) ? flag_ns : 0;
  fmt::print("# a flag from core to core takes {:.0f} ns\n", tuning.flag_ns);
  for (const int ranks : request.ranks) {
    const double end_s = elapsed_s() + request.seconds;
    const auto limits = tuning_limits(request, ranks, tuning.flag_ns);
    tuning.limits.insert(tuning.limits.end(), limits.begin(), limits.end());
    fmt::print("\n# {} ranks\n{:<6} {:<15} {:>8} {:<25} {:>11} {:<25} {:>11} {:>6}\n", ranks, "over", "collective",
               "size", "library's choice", "us", "fastest", "us", "ratio");
    std::fflush(stdout);
    const double left_s = std::max(1.0, end_s - elapsed_s());
    if (const int code = measure_times(request, ranks, left_s, tuning); code != 0) return code;
  }
  if (const Status written = write_tuning(tuning, request.output); !written) return report(written.error());
  fmt::print("\n# {} times in {:.1f} s: {}\n", tuning.times.size(), elapsed_s(), request.output);
  return 0;
}

}  // namespace wreath::perf
