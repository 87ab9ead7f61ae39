// Measures limits first, and then times by ranks as processes, and writes the file.
#include "perf/tune/tune.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "perf/common/buffers.hpp"
#include "perf/common/host_memory.hpp"
#include "perf/common/launch.hpp"
#include "perf/limits/shm.hpp"
#include "src/command_line/program.hpp"

namespace wreath::perf {
namespace {

using command_line::fail;

// Returns the collectives of the table of algorithms that have several rows.
std::vector<Collective> all_choices() {
  std::vector<Collective> choices;
  for (const Collective collective : all_collectives()) {
    const auto rows = std::count_if(algorithms().begin(), algorithms().end(),
                                    [&](const Algorithm& row) { return row.collective == collective; });
    if (rows > 1) choices.push_back(collective);
  }
  return choices;
}

int measure_in_threads(TuneRequest request, int ranks, double seconds, Tuning& tuning) {
  request.seconds = seconds;
  const auto times = measure_threads(request, ranks);
  if (!times) return fail(times.error());
  tuning.times.insert(tuning.times.end(), times->begin(), times->end());
  return 0;
}

// Runs the processes of one number of ranks, and adds its times to `tuning`.
int measure_times(const TuneRequest& request, int ranks, double seconds, Tuning& tuning) {
  if (streams(request.memory)) return measure_in_threads(request, ranks, seconds, tuning);
  const std::string part = fmt::format("{}.{}.part", request.output, ::getpid());
  std::vector<std::string> command = request.command;
  command.insert(command.end(), {"--part-file", part, "--seconds", fmt::format("{:.1f}", seconds)});
  const int code = launch(ranks, 1, command);
  const Result<Tuning> measured = code == 0 ? read_tuning(part) : Result<Tuning>(empty_tuning());
  ::unlink(part.c_str());
  if (code != 0) return code;
  if (!measured) return fail(measured.error());
  tuning.times.insert(tuning.times.end(), measured->times.begin(), measured->times.end());
  return 0;
}

// Returns the tuning that the file has already for buffers in other places than this run's.
Tuning beginning(const TuneRequest& request) {
  Tuning tuning = empty_tuning();
  const bool device = streams(request.memory);
  Result<Tuning> before = read_tuning(request.output);
  const std::string of_device = before ? std::exchange(before->device, {}) : std::string();
  if (before && check_origin(*before, request.output)) tuning = *std::move(before);
  const bool same_device = of_device == gpu_name();
  if (same_device) tuning.device = of_device;
  std::erase_if(tuning.times,
                [&](const TuningTime& time) { return time.device == device || (time.device && !same_device); });
  if (device) {
    tuning.device = request.memory == MemoryPlace::HostDevice ? "made of host threads" : gpu_name();
  } else {
    tuning.limits.clear();
  }
  return tuning;
}

// Checks, before anything is measured, the path of the file, and whether it can be written.
Status prepare(TuneRequest& request) {
  WREATH_TRY(check_started_once());
  if (const auto device = device_of(request.memory, 0); !device) return device.error();
  const double bytes = request.memory == MemoryPlace::Device ? 0 : static_cast<double>(request.largest);
  const int ranks = *std::max_element(request.ranks.begin(), request.ranks.end());
  WREATH_TRY(
      check_host_memory({"--largest " + format_bytes(request.largest), bytes, kBuffersOfARank}, this_host(ranks)));
  const auto refuse = [](std::string_view reason) {
    return Error{ErrorCode::InvalidArgument, fmt::format("--output: {}", reason)};
  };
  if (request.memory == MemoryPlace::HostDevice && request.output.empty()) {
    return refuse("name a file: no communicator takes what a device made of host threads measured");
  }
  if (request.output.empty()) request.output = default_tuning_path();
  if (request.output.empty()) return refuse("there is no cache folder: name a file");
  if (std::filesystem::is_directory(request.output)) return refuse(request.output + " is a folder: name a file");
  const std::string part = request.output + ".part";
  WREATH_TRY(write_tuning(empty_tuning(), part));
  ::unlink(part.c_str());
  return {};
}

// Measures the flag of the host into `tuning`.
void measure_flag(Tuning& tuning) {
  fmt::print("# limits of the machine ...\n");
  std::fflush(stdout);
  const double flag_ns = flag_flight_ns(kQuickEffort);
  tuning.flag_ns = std::isfinite(flag_ns) ? flag_ns : 0;
  fmt::print("# a flag from core to core takes {:.0f} ns\n", tuning.flag_ns);
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
    return measured ? 0 : fail(measured.error());
  }
  if (const Status prepared = prepare(request); !prepared) return fail(prepared.error());
  Tuning tuning = beginning(request);
  const bool device = streams(request.memory);

  const auto start = std::chrono::steady_clock::now();
  const auto elapsed_s = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  fmt::print("# {}; ranks {}; over {}\n", device ? tuning.device : tuning.machine, fmt::join(request.ranks, " "),
             fmt::join(request.transports, " "));
  if (request.memory == MemoryPlace::Device && cuda_devices().value() == 1) fmt::print("# {}\n", kOneGpu);
  if (!device) measure_flag(tuning);
  for (const int ranks : request.ranks) {
    const double end_s = elapsed_s() + request.seconds;
    if (!device) {
      const auto limits = tuning_limits(request, ranks, tuning.flag_ns);
      tuning.limits.insert(tuning.limits.end(), limits.begin(), limits.end());
    }
    fmt::print("\n# {} ranks\n{:<6} {:<15} {:>8} {:<25} {:>11} {:<25} {:>11} {:>6}\n", ranks, "over", "collective",
               "size", "library's choice", "us", "fastest", "us", "ratio");
    std::fflush(stdout);
    const double left_s = std::max(1.0, end_s - elapsed_s());
    if (const int code = measure_times(request, ranks, left_s, tuning); code != 0) return code;
  }
  // A file that communicators would refuse must not be at the place where they look.
  if (const auto taken = explain_plan({}, &tuning); !taken) return fail(taken.error());
  if (const Status written = write_tuning(tuning, request.output); !written) return fail(written.error());
  fmt::print("\n# {} times in {:.1f} s: {}\n", tuning.times.size(), elapsed_s(), request.output);
  return 0;
}

}  // namespace wreath::perf
