// alternate_perf: measures what small calls cost more among other small calls than where each repeats.
// Ranks are threads on cores of their own. They begin each call at one instant, outside the clock, so that no call
// waits for the one before. The time of a call is the slowest rank's.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "perf/base/flags.hpp"
#include "perf/base/machine.hpp"
#include "perf/base/statistics.hpp"
#include "perf/common/launch.hpp"
#include "perf/limits/loops.hpp"
#include "perf/limits/machine.hpp"
#include "perf/limits/shm.hpp"
#include "perf/limits/team.hpp"
#include "src/base/text_file.hpp"
#include "src/command_line/numbers.hpp"
#include "src/command_line/program.hpp"
#include "src/json/value.hpp"
#include "wreath/wreath.hpp"

namespace wreath::perf {
namespace {

struct Options {
  int ranks = 2;
  int rounds = 31;
  int calls = 300;  // of each kind in a round, both ways
  std::string transport;
  std::vector<std::string> collectives;  // none: all
  std::string json_path;
};

// A kind of call. Roots count from the last rank where they are negative.
struct SmallKind {
  Collective collective;
  std::size_t count;
  DataType dtype;
  ReduceOp op;
  Rank root;
  bool in_place;
};
constexpr SmallKind kKinds[] = {
    {Collective::AllReduce, 2, DataType::Float32, ReduceOp::Sum, 0, false},
    {Collective::AllReduce, 2, DataType::Float32, ReduceOp::Sum, 0, true},
    {Collective::AllReduce, 1, DataType::Float64, ReduceOp::Max, 0, false},
    {Collective::AllReduce, 30, DataType::Int32, ReduceOp::Min, 0, false},
    {Collective::AllReduce, 100, DataType::BFloat16, ReduceOp::Avg, 0, true},
    {Collective::ReduceScatter, 4, DataType::Float32, ReduceOp::Sum, 0, false},
    {Collective::AllGather, 2, DataType::Float32, ReduceOp::Sum, 0, false},
    {Collective::AllGather, 16, DataType::Int64, ReduceOp::Sum, 0, true},
    {Collective::Broadcast, 2, DataType::Float32, ReduceOp::Sum, 0, false},
    {Collective::Broadcast, 2, DataType::Float32, ReduceOp::Sum, -1, false},
    {Collective::Broadcast, 64, DataType::Uint8, ReduceOp::Sum, 0, true},
    {Collective::Reduce, 2, DataType::Float32, ReduceOp::Sum, 0, false},
    {Collective::Reduce, 8, DataType::Float64, ReduceOp::Min, -1, true},
    {Collective::AllToAll, 2, DataType::Float32, ReduceOp::Sum, 0, false},
    {Collective::Gather, 2, DataType::Float32, ReduceOp::Sum, 0, false},
    {Collective::Scatter, 2, DataType::Float32, ReduceOp::Sum, -1, false},
};

using Kinds = std::vector<SmallKind>;
Kinds kinds_of(const std::vector<std::string>& collectives) {
  Kinds kinds;
  for (const SmallKind& kind : kKinds) {
    const auto found = std::find(collectives.begin(), collectives.end(), name(kind.collective));
    if (collectives.empty() || found != collectives.end()) kinds.push_back(kind);
  }
  return kinds;
}

std::vector<std::string> names_of_collectives() {
  std::vector<std::string> names;
  for (const SmallKind& kind : kKinds) {
    if (names.empty() || names.back() != name(kind.collective)) names.emplace_back(name(kind.collective));
  }
  return names;
}

// The time of a kind's first call, and its median times in each round.
struct KindTimes {
  double first_us = 0;
  std::vector<double> repeated_ns;
  std::vector<double> alternating_ns;

  std::vector<double> more_ns() const {
    std::vector<double> list;
    for (std::size_t i = 0; i < repeated_ns.size(); ++i) list.push_back(alternating_ns[i] - repeated_ns[i]);
    return list;
  }
};

// All ranks share this. Rank 0 writes it between barriers; each rank writes its own times.
struct Measured {
  Measured(int ranks, std::size_t count)
      : times_ns(static_cast<std::size_t>(ranks)), errors(times_ns.size()), kinds(count) {}
  std::vector<std::vector<std::int64_t>> times_ns;  // by rank and call
  std::vector<std::optional<Error>> errors;         // by rank: the first
  std::vector<KindTimes> kinds;
};

using command_line::fail;

// The calls of one rank.
class Calls {
 public:
  Calls(TeamMember& member, Communicator& communicator, Measured& measured, const Kinds& kinds)
      : member_(member),
        communicator_(communicator),
        measured_(measured),
        times_ns_(measured.times_ns[static_cast<std::size_t>(member.rank())]),
        error_(measured.errors[static_cast<std::size_t>(member.rank())]) {
    for (const SmallKind& kind : kinds) calls_.push_back(call_of(kind));
  }

  // Makes the calls of `order`. Returns their nanoseconds, the slowest rank's, on all ranks. A rank whose call fails
  // goes on, since the others wait for it.
  std::vector<double> time_ns(const std::vector<std::size_t>& order) {
    times_ns_.clear();
    for (const std::size_t kind : order) {
      const std::int64_t start_ns = member_.start_together();
      const Status status = communicator_.run(calls_[kind]);
      times_ns_.push_back(now_ns() - start_ns);
      if (!status && !error_) error_ = status.error();
    }
    member_.barrier();
    std::vector<double> times(order.size());
    for (const auto& of_rank : measured_.times_ns) {
      for (std::size_t i = 0; i < times.size(); ++i) times[i] = std::max(times[i], static_cast<double>(of_rank[i]));
    }
    member_.barrier();
    return times;
  }

 private:
  Call call_of(const SmallKind& kind) {
    Call call;
    call.collective = kind.collective;
    call.dtype = kind.dtype;
    call.reduction = kind.op;
    call.root = kind.root < 0 ? member_.ranks() + kind.root : kind.root;
    call.count = kind.count;
    call.input = input_.data();
    call.output = output_.data();
    if (!kind.in_place) return call;
    const std::size_t own = static_cast<std::size_t>(member_.rank()) * kind.count * size_of(kind.dtype);
    call.input = call.output + (kind.collective == Collective::AllGather ? own : 0);
    return call;
  }

  TeamMember& member_;
  Communicator& communicator_;
  Measured& measured_;
  std::vector<std::int64_t>& times_ns_;
  std::optional<Error>& error_;
  // Zeros stay zeros, in place and out of place.
  Pages input_{std::size_t{64} << 10};
  Pages output_{std::size_t{64} << 10};
  std::vector<Call> calls_;
};

// Returns a random order of `calls` calls of each kind, which is the same on all ranks.
std::vector<std::size_t> mixed(std::size_t kinds, int calls, std::uint32_t seed) {
  std::vector<std::size_t> order;
  for (int i = 0; i < calls; ++i) {
    for (std::size_t kind = 0; kind < kinds; ++kind) order.push_back(kind);
  }
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return order;
}

void measure(TeamMember& member, Communicator& communicator, const Options& options, Measured& measured) {
  Calls calls(member, communicator, measured, kinds_of(options.collectives));
  const std::size_t kinds = measured.kinds.size();
  const bool keeps = member.rank() == 0;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    const double ns = calls.time_ns({kind}).front();
    if (keeps) measured.kinds[kind].first_us = ns / 1000;
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      const auto times = calls.time_ns(std::vector(static_cast<std::size_t>(options.calls), kind));
      if (keeps) measured.kinds[kind].repeated_ns.push_back(median(times));
    }
    const auto order = mixed(kinds, options.calls, static_cast<std::uint32_t>(round));
    const auto times = calls.time_ns(order);
    for (std::size_t kind = 0; keeps && kind < kinds; ++kind) {
      std::vector<double> of_kind;
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (order[i] == kind) of_kind.push_back(times[i]);
      }
      measured.kinds[kind].alternating_ns.push_back(median(of_kind));
    }
  }
}

// Returns the mean of all kinds' differences in each round.
std::vector<double> mean_more_ns(const std::vector<KindTimes>& kinds) {
  std::vector<double> means(kinds.front().repeated_ns.size());
  for (const KindTimes& kind : kinds) {
    const auto more = kind.more_ns();
    for (std::size_t i = 0; i < means.size(); ++i) means[i] += more[i] / static_cast<double>(kinds.size());
  }
  return means;
}

int report(const Options& options, const std::string& transport, double flag_ns,
           const std::vector<KindTimes>& all_times) {
  const Kinds kinds = kinds_of(options.collectives);
  fmt::print("# {} kinds of small calls on {} ranks over {}; a flag takes {:.0f} ns\n", kinds.size(), options.ranks,
             transport, flag_ns);
  fmt::print("# ns of a call from a common start, the slowest rank's; medians of {} rounds of {} calls of a kind\n",
             options.rounds, options.calls);
  fmt::print("{:<15} {:>6} {:<9} {:<4} {:>4} {:<5} {:>10} {:>9} {:>9} {:>7}  interval\n", "call", "count", "type", "op",
             "root", "place", "first us", "repeated", "in turns", "more");
  Json rows = Json::array();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const SmallKind& kind = kinds[i];
    const KindTimes& times = all_times[i];
    const double more = median(times.more_ns());
    const Interval interval = median_interval(times.more_ns());
    const std::string_view op = reduces(kind.collective) ? name(kind.op) : "-";
    const std::string root = has_root(kind.collective) ? std::to_string(kind.root) : "-";
    fmt::print("{:<15} {:>6} {:<9} {:<4} {:>4} {:<5} {:>10.1f} {:>9.0f} {:>9.0f} {:>+7.1f}  {:+.1f} .. {:+.1f}\n",
               name(kind.collective), kind.count, name(kind.dtype), op, root, kind.in_place ? "in" : "out",
               times.first_us, median(times.repeated_ns), median(times.alternating_ns), more, interval.low,
               interval.high);
    rows.push_back({{"collective", name(kind.collective)},
                    {"count", kind.count},
                    {"dtype", name(kind.dtype)},
                    {"op", op},
                    {"root", root},
                    {"in_place", kind.in_place},
                    {"first_us", times.first_us},
                    {"repeated_ns", median(times.repeated_ns)},
                    {"alternating_ns", median(times.alternating_ns)},
                    {"more_ns", more},
                    {"interval_ns", {interval.low, interval.high}}});
  }
  const auto means = mean_more_ns(all_times);
  const Interval interval = median_interval(means);
  fmt::print("# mean of all kinds: {:+.1f} ns more in turns, {:+.1f} .. {:+.1f}\n", median(means), interval.low,
             interval.high);
  if (options.json_path.empty()) return 0;
  const Json json{{"cpu", cpu_name()},
                  {"cores", allowed_cores().size()},
                  {"commit", WREATH_COMMIT},
                  {"ranks", options.ranks},
                  {"transport", transport},
                  {"flag_ns", flag_ns},
                  {"rounds", options.rounds},
                  {"calls", options.calls},
                  {"kinds", rows},
                  {"more_ns", median(means)},
                  {"interval_ns", {interval.low, interval.high}}};
  const Status written = write_output(options.json_path, json.dump({.indent = 2, .sorted = true}) + "\n");
  return written ? 0 : fail(written.error());
}

int measure_and_report(const Options& options) {
  if (pick_cores(options.ranks).empty()) {
    return fail(77, fmt::format("alternate_perf: needs a core for each of {} ranks", options.ranks));
  }
  CommunicatorOptions wanted;
  if (!options.transport.empty()) wanted.transports = {options.transport};
  auto communicators = Communicator::create_local(options.ranks, wanted);
  if (!communicators) return fail(communicators.error());
  const std::string transport = communicators->front().transport_to(options.ranks - 1);
  const double flag_ns = flag_flight_ns(kQuickEffort);
  Measured measured(options.ranks, kinds_of(options.collectives).size());
  run_team(options.ranks, [&](TeamMember& member) {
    measure(member, (*communicators)[static_cast<std::size_t>(member.rank())], options, measured);
  });
  for (const auto& error : measured.errors) {
    if (error) return fail(*error);
  }
  return report(options, transport, flag_ns, measured.kinds);
}

int run(int argc, char** argv) {
  const command_line::Program app{
      "Measures what small calls cost more among other small calls than where each repeats.", "alternate_perf"};
  Options options;
  command_line::add_number(app, "--ranks", options.ranks, {2, kMaximumTeam}, "ranks, as threads (2)");
  command_line::add_number(app, "--rounds", options.rounds, {1, 100000}, "rounds (31)");
  command_line::add_number(app, "--calls", options.calls, {1, 100000}, "calls of each kind in a round (300)");
  app.add_option("--transport", options.transport, "the allowed transport; all when left out").check(check_transport);
  app.add_option("--collective", options.collectives, "kinds of these collectives alone")
      .one_of(names_of_collectives())
      .delimiter(',')
      .type_name("NAME");
  app.add_option("-J,--json", options.json_path, "numbers").check(check_output_file);
  app.footer(
      "In a round each kind repeats alone, and then all kinds come in a random order. 'more' is the difference of "
      "both\n"
      "times, and its interval holds the median with at least 90 %. The first call of a kind is shown apart.");
  if (const auto code = app.parse(argc, argv)) return *code;
  const Status once = check_started_once();
  return once ? measure_and_report(options) : fail(once.error());
}

}  // namespace
}  // namespace wreath::perf

int main(int argc, char** argv) {
  return wreath::command_line::run_main([&] { return wreath::perf::run(argc, argv); });
}
