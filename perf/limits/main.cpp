// limits: measures in one run how fast this machine's memory and loopback could make calls.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "perf/base/flags.hpp"
#include "perf/base/sizes.hpp"
#include "perf/limits/machine.hpp"
#include "perf/limits/memory.hpp"
#include "perf/limits/shm.hpp"
#include "perf/limits/slots.hpp"
#include "perf/limits/tcp.hpp"
#include "src/base/text_file.hpp"
#include "src/command_line/program.hpp"
#include "src/json/value.hpp"

namespace wreath::perf {
namespace {

struct Options {
  bool quick = false;
  bool rewrite = false;
  std::string json_path;
  Effort effort() const { return quick ? kQuickEffort : Effort{}; }
};

// Returns a number, or null for a limit that could not be measured, since JSON has no NaN.
Json number(double value) { return std::isnan(value) ? Json() : Json(value); }
std::string cell(double value) { return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, value < 10 ? 3 : 1); }

Json print_machine(const Effort& effort) {
  const Machine machine = this_machine();
  const double flight_ns = flag_flight_ns(effort);
  const std::string distance = std::isnan(flight_ns) ? "one core" : core_distance(flight_ns);
  fmt::print("# machine: {}, {} cores, L2 {}, L3 {}\n", machine.cpu, machine.cores, format_bytes(machine.l2_bytes),
             format_bytes(machine.l3_bytes));
  fmt::print("# flag between two cores, one way: {} ns ({})\n", cell(flight_ns), distance);
  return {{"cpu", machine.cpu},           {"cores", machine.cores},       {"l2_bytes", machine.l2_bytes},
          {"l3_bytes", machine.l3_bytes}, {"flag_ns", number(flight_ns)}, {"distance", distance}};
}

Json print_memory(const Effort& effort) {
  const Machine machine = this_machine();
  struct Level {
    const char* name;
    std::size_t bytes;  // of one thread
  };
  const Level levels[] = {{"L2", machine.l2_bytes / 2},
                          {"L3", std::max(machine.l3_bytes / 4, 2 * machine.l2_bytes)},
                          {"DRAM", std::max(4 * machine.l3_bytes, std::size_t{128} << 20)}};
  fmt::print("#\n# memory, GB/s read and written (1e9), all threads together\n");
  fmt::print("{:>8} {:>12} {:>8} {:>10} {:>10}\n", "level", "buffers", "threads", "copy", "reduce");
  Json rows = Json::array();
  for (const Level& level : levels) {
    for (const int threads : {1, 2}) {
      const Bandwidth bandwidth = memory_bandwidth(level.bytes, threads, effort);
      fmt::print("{:>8} {:>12} {:>8} {:>10} {:>10}\n", level.name, format_bytes(level.bytes), threads,
                 cell(bandwidth.copy_gbps), cell(bandwidth.reduce_gbps));
      rows.push_back({{"level", level.name},
                      {"bytes_per_thread", level.bytes},
                      {"threads", threads},
                      {"copy_gbps", number(bandwidth.copy_gbps)},
                      {"reduce_gbps", number(bandwidth.reduce_gbps)}});
    }
  }
  return rows;
}

Json print_all_reduce(const Options& options) {
  fmt::print("#\n# all_reduce float32 sum, 2 ranks: limits, us{}\n",
             options.rewrite ? "; shm inputs rewritten before each call"
                             : "; constant inputs, so caches may hold both ranks' (see --rewrite)");
  fmt::print("      size          shm     shm GB/s      flag ns          tcp     tcp GB/s\n");
  Json rows = Json::array();
  constexpr std::size_t kLargest = std::size_t{64} << 20;
  const std::size_t factor = options.quick ? 8 : 2;
  for (std::size_t bytes = 8; bytes <= kLargest; bytes *= factor) {
    // Every row has its own measurement, since the cores of virtual machines move.
    const double flag_ns = flag_flight_ns(kQuickEffort);
    const double shm_us = shm_all_reduce_limit_us(bytes, 2, options.rewrite, options.effort());
    const double tcp_us = tcp_exchange_limit_us(bytes, options.effort());
    const auto gbps = [bytes](double us) { return static_cast<double>(bytes) / us / 1000; };
    fmt::print("{:>10} {:>12} {:>12} {:>12} {:>12} {:>12}\n", format_bytes(bytes), cell(shm_us), cell(gbps(shm_us)),
               cell(flag_ns), cell(tcp_us), cell(gbps(tcp_us)));
    std::fflush(stdout);
    rows.push_back(
        {{"bytes", bytes}, {"shm_us", number(shm_us)}, {"flag_ns", number(flag_ns)}, {"tcp_us", number(tcp_us)}});
  }
  return rows;
}

Json print_slots(const Options& options) {
  fmt::print(
      "#\n# messages through slots, 2 threads: us where slots change hands, with the best ring, and with the worst{}\n",
      options.rewrite ? "; inputs rewritten before each call" : "");
  fmt::print("{:>10} {:>12} {:>12} {:>8} {:>12} {:>8} {:>12} {:>8} {:>12} {:>8} {:>10}\n", "size", "change hands",
             "both ways", "ring", "worst", "ring", "one way", "ring", "worst", "ring", "flag ns");
  Json rows = Json::array();
  constexpr std::size_t kLargest = std::size_t{2} << 20;
  const std::size_t factor = options.quick ? 16 : 2;
  for (std::size_t bytes = std::size_t{8} << 10; bytes <= kLargest; bytes *= factor) {
    const double flag_ns = flag_flight_ns(kQuickEffort);
    const double handed_us = handed_over_us(bytes, options.rewrite, options.effort());
    Json row = {{"bytes", bytes}, {"flag_ns", number(flag_ns)}, {"change_hands_us", number(handed_us)}};
    std::string line = fmt::format("{:>10} {:>12}", format_bytes(bytes), cell(handed_us));
    for (const bool both_ways : {true, false}) {
      const auto times = slots_times(bytes, both_ways, options.rewrite, options.effort());
      Json rings = Json::array();
      for (const RingTime& each : times) rings.push_back({{"ring_bytes", each.ring_bytes}, {"us", number(each.us)}});
      for (const RingTime& each : {fastest_ring(times), slowest_ring(times)}) {
        line += fmt::format(" {:>12} {:>8}", cell(each.us), format_bytes(each.ring_bytes));
      }
      row[both_ways ? "both_ways_us" : "one_way_us"] = number(fastest_ring(times).us);
      row[both_ways ? "both_ways_rings" : "one_way_rings"] = rings;
    }
    fmt::print("{} {:>10}\n", line, cell(flag_ns));
    std::fflush(stdout);
    rows.push_back(std::move(row));
  }
  return rows;
}

// Names a row without a figure; empty when all rows have theirs.
std::string missing_figure(const Json& rows, std::initializer_list<const char*> names) {
  for (const Json& row : rows) {
    for (const char* name : names) {
      if (row[name].is_null()) return fmt::format("no {} for {} bytes", name, row["bytes"].get<std::size_t>());
    }
  }
  return {};
}

Status write_json(const std::string& path, const Json& report) {
  return write_output(path, report.dump({.indent = 2, .sorted = true}) + "\n");
}

using command_line::fail;

// Runs the measurement with the exit codes of docs/formats.md: 1 a wrong result, 2 usage, 77 not available here.
int run(const Options& options) {
  if (pick_cores(2).empty()) return fail(77, "limits: needs two cores, and this process may use one");
  Json report;
  report["quick"] = options.quick;
  report["rewrite"] = options.rewrite;
  report["machine"] = print_machine(options.effort());
  report["memory"] = print_memory(options.effort());
  report["all_reduce"] = print_all_reduce(options);
  report["slots"] = print_slots(options);
  const Status written = options.json_path.empty() ? Status() : write_json(options.json_path, report);
  if (!written) return fail(exit_code(written.error().code), "--json: " + written.error().message);
  for (const std::string& missing : {missing_figure(report["all_reduce"], {"shm_us", "tcp_us"}),
                                     missing_figure(report["slots"], {"both_ways_us", "one_way_us"})}) {
    if (!missing.empty()) return fail(1, "limits: " + missing + " (a wrong result, or no loopback socket)");
  }
  return 0;
}

int parse_and_run(int argc, char** argv) {
  Options options;
  const command_line::Program app("Measures what memory and loopback of this machine allow an all_reduce of 2 ranks.",
                                  "limits");
  app.add_flag("--quick", options.quick, "fewer sizes, shorter rounds: seconds in total");
  app.add_flag("--rewrite", options.rewrite, "store new inputs before each call, outside the clock");
  app.add_option("-J,--json", options.json_path, "also write the figures to FILE")
      .type_name("FILE")
      .check(check_output_file);
  if (const auto code = app.parse(argc, argv)) return *code;
  return run(options);
}

}  // namespace
}  // namespace wreath::perf

int main(int argc, char** argv) {
  return wreath::command_line::run_main([&] { return wreath::perf::parse_and_run(argc, argv); });
}
