// overlap_perf: measures how much of an all_reduce is hidden behind a computation that takes as long.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "perf/base/flags.hpp"
#include "perf/base/machine.hpp"
#include "perf/base/member.hpp"
#include "perf/base/sizes.hpp"
#include "perf/base/statistics.hpp"
#include "perf/common/host_memory.hpp"
#include "perf/common/launch.hpp"
#include "perf/common/run.hpp"
#include "src/base/text_file.hpp"
#include "src/command_line/numbers.hpp"
#include "src/command_line/program.hpp"
#include "src/json/value.hpp"
#include "wreath/types.hpp"
#include "wreath/units.hpp"
#include "wreath/wreath.hpp"

namespace wreath::perf {
namespace {

struct Options {
  // The processes to start; 0: none, since the environment has this process's rank.
  int ranks = 0;
  int rounds = 11;
  std::string size = "16M";
  std::string transport;
  std::string json_path;
  int start_descriptor = -1;  // of a process that launch() started
};

struct Buffers {
  std::vector<float> input;
  std::vector<float> output;
};

// The milliseconds of one round. In a list of all rounds, they are the slowest rank's of each round.
struct Times {
  double alone = 0;    // the blocking call
  double compute = 0;  // the computation
  double both = 0;     // start, computation, wait
};

using command_line::fail;

template <typename Action>
double time_ms(Action action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// The value at which a computation begins and ends, so that the compiler keeps it between two readings of the clock.
volatile double g_value = 1;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// Keeps one core busy, and uses no memory.
void compute(std::int64_t steps) {
  double value = g_value;
  for (std::int64_t i = 0; i < steps; ++i) value = value * 0.999999 + 1e-6;
  g_value = value;
}

double compute_ms(std::int64_t steps) {
  return time_ms([&] { compute(steps); });
}

// Returns the steps of a computation that takes `wanted_ms` on a core of its own.
std::int64_t steps_for(double wanted_ms) {
  std::int64_t steps = 100'000;
  double best_ms = compute_ms(steps);
  for (int i = 0; i < 10; ++i) best_ms = std::min(best_ms, compute_ms(steps));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(steps) * wanted_ms / best_ms));
}

Result<double> call_ms(Communicator& communicator, Buffers& buffers) {
  WREATH_TRY(communicator.barrier());
  Status status;
  const double ms = time_ms([&] {
    status =
        communicator.all_reduce(buffers.input.data(), buffers.output.data(), buffers.input.size(), DataType::Float32);
  });
  if (!status) return status.error();
  return ms;
}

Result<double> both_ms(Communicator& communicator, Buffers& buffers, std::int64_t steps) {
  WREATH_TRY(communicator.barrier());
  Status status;
  const double ms = time_ms([&] {
    auto work = communicator.all_reduce_async(buffers.input.data(), buffers.output.data(), buffers.input.size(),
                                              DataType::Float32);
    compute(steps);
    status = work ? work->wait() : Status(work.error());
  });
  if (!status) return status.error();
  return ms;
}

// Returns the largest number of all ranks for each time.
Result<Times> slowest(Member& member, const Times& mine) {
  const std::array<double, 3> numbers{mine.alone, mine.compute, mine.both};
  const auto all = gather(member, numbers);
  if (!all) return all.error();
  Times times;
  for (std::size_t at = 0; at + 2 < all->size(); at += 3) {
    times.alone = std::max(times.alone, (*all)[at]);
    times.compute = std::max(times.compute, (*all)[at + 1]);
    times.both = std::max(times.both, (*all)[at + 2]);
  }
  return times;
}

// Returns the steps of a computation that takes as long as the call, and equally long on all ranks.
Result<std::int64_t> calibrate(Communicator& communicator, Member& member, Buffers& buffers) {
  std::vector<double> samples;
  for (int i = 0; i < 5; ++i) {
    const auto ms = call_ms(communicator, buffers);
    if (!ms) return ms.error();
    const auto all = slowest(member, {*ms, 0, 0});
    if (!all) return all.error();
    samples.push_back(all->alone);
  }
  WREATH_TRY(communicator.barrier());
  return steps_for(summarize(samples).p50);
}

Result<std::vector<Times>> measure(Communicator& communicator, const Options& options, std::size_t bytes) {
  CommunicatorMember member(communicator);
  const auto core = choose_core(member, true);  // the threads of the library stay free
  if (!core) return core.error();
  Buffers buffers{std::vector<float>(bytes / sizeof(float), 1.0F), std::vector<float>(bytes / sizeof(float))};
  const auto first = call_ms(communicator, buffers);
  if (!first) return first.error();
  const auto steps = calibrate(communicator, member, buffers);
  if (!steps) return steps.error();
  std::vector<Times> rounds;
  for (int round = 0; round < options.rounds; ++round) {
    const auto alone = call_ms(communicator, buffers);
    if (!alone) return alone.error();
    WREATH_TRY(communicator.barrier());
    const double computed = compute_ms(*steps);
    const auto both = both_ms(communicator, buffers, *steps);
    if (!both) return both.error();
    const auto all = slowest(member, {*alone, computed, *both});
    if (!all) return all.error();
    rounds.push_back(*all);
  }
  return rounds;
}

double median(const std::vector<Times>& rounds, double Times::*field) {
  std::vector<double> samples;
  for (const Times& times : rounds) samples.push_back(times.*field);
  return summarize(samples).p50;
}

int report(const Communicator& communicator, const Options& options, std::size_t bytes,
           const std::vector<Times>& rounds) {
  const Times times{median(rounds, &Times::alone), median(rounds, &Times::compute), median(rounds, &Times::both)};
  const double sum = times.alone + times.compute;
  const double hidden = 100 * (sum - times.both) / std::min(times.alone, times.compute);
  const std::string transport = communicator.transport_to(communicator.ranks() > 1 ? 1 : 0);
  fmt::print("# all_reduce of {}, {} ranks, {}; medians of {} rounds, the slowest rank's, ms\n", format_bytes(bytes),
             communicator.ranks(), transport, options.rounds);
  fmt::print("{:>10} {:>10} {:>10} {:>10} {:>12}\n", "call", "compute", "both", "hidden", "both / sum");
  fmt::print("{:>10.2f} {:>10.2f} {:>10.2f} {:>9.1f}% {:>12.3f}\n", times.alone, times.compute, times.both, hidden,
             times.both / sum);
  if (options.json_path.empty()) return 0;
  const Json json{{"bytes", bytes},           {"ranks", communicator.ranks()},   {"transport", transport},
                  {"cpu", cpu_name()},        {"cores", allowed_cores().size()}, {"commit", WREATH_COMMIT},
                  {"rounds", options.rounds}, {"call_ms", times.alone},          {"compute_ms", times.compute},
                  {"both_ms", times.both},    {"hidden_percent", hidden},        {"both_to_sum", times.both / sum}};
  const Status written = write_output(options.json_path, json.dump({.indent = 2, .sorted = true}) + "\n");
  return written ? 0 : fail(written.error());
}

Result<Communicator> connect(const Options& options) {
  CommunicatorOptions wanted;
  if (!options.transport.empty()) wanted.transports = {options.transport};
  if (options.start_descriptor < 0) return Communicator::create_from_environment(wanted);
  const auto place = read_place(options.start_descriptor);
  if (!place) return place.error();
  return Communicator::create(place->id, place->process, place->processes, wanted);
}

int run_rank(const Options& options, std::size_t bytes) {
  auto communicator = connect(options);
  if (!communicator) return fail(communicator.error());
  const auto rounds = measure(*communicator, options, bytes);
  if (!rounds) return fail(rounds.error());
  return communicator->rank() == 0 ? report(*communicator, options, bytes, *rounds) : 0;
}

int run(int argc, char** argv) {
  const command_line::Program app{
      "Measures how much of an all_reduce is hidden behind a computation that takes as long.", "overlap_perf"};
  Options options;
  command_line::add_number(app, "--ranks", options.ranks, {1, kMaximumRanks},
                           "starts this many processes on this host");
  command_line::add_number(app, "--rounds", options.rounds, {1, 100000}, "rounds (11)");
  app.add_option("--size", options.size, "of the vector (16M)").check(check_size);
  app.add_option("--transport", options.transport, "the allowed transport; all when left out").check(check_transport);
  app.add_option("-J,--json", options.json_path, "numbers").check(check_output_file);
  app.add_option("--start-descriptor", options.start_descriptor).group("");
  if (const auto code = app.parse(argc, argv)) return *code;
  const auto bytes = parse_bytes(options.size);
  if (!bytes) return fail(bytes.error());
  if (*bytes < sizeof(float)) {
    return fail({ErrorCode::InvalidArgument, fmt::format("--size {}: a float32 has 4 bytes", options.size)});
  }
  const bool starts = options.ranks > 0 && options.start_descriptor < 0;
  if (const Status once = check_started_once(); starts && !once) return fail(once.error());
  const BufferNeed need{"--size " + options.size, static_cast<double>(*bytes), 2};
  if (const Status room = check_host_memory(need, this_host(std::max(1, options.ranks))); !room)
    return fail(room.error());
  if (starts) return launch(options.ranks, 1, std::vector<std::string>(argv, argv + argc));
  return run_rank(options, *bytes);
}

}  // namespace
}  // namespace wreath::perf

int main(int argc, char** argv) {
  return wreath::command_line::run_main([&] { return wreath::perf::run(argc, argv); });
}
