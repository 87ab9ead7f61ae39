// The command line: the flags of nccl-tests with their names and defaults, and our own flags.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "perf/base/sizes.hpp"
#include "perf/base/statistics.hpp"
#include "perf/base/streamed.hpp"
#include "perf/common/collectives.hpp"
#include "wreath/communicator.hpp"

namespace wreath::perf {

struct Options {
  // The processes to start on this host; 0: none, since the environment has this process's rank.
  int ranks = 0;
  int threads = 1;  // ranks of this process
  SizeRange sizes;
  int iterations = 20;
  // The time of the timed calls, in place of `iterations`; 0: `iterations` decides.
  double time_ms = 0;
  int warmup = 1;
  int cycles = 1;  // 0: without an end
  // The repeats of all sizes in turn, of which medians and intervals are shown.
  int repeats = 1;
  int check = 1;  // before the timed calls; 0: nothing is checked
  std::vector<DataType> dtypes{DataType::Float32};
  std::vector<ReduceOp> ops{ReduceOp::Sum};
  Rank root = 0;
  bool all_roots = false;  // instead of `root`
  Average average = Average::Mean;
  bool timestamps = false;
  bool per_iteration = false;
  int per_iteration_skip = 0;
  int unalign = 0;         // elements
  std::size_t offset = 0;  // bytes
  bool rewrite = false;
  bool alternate = false;
  bool only_out_of_place = false;
  MemoryPlace memory = MemoryPlace::Host;
  // The devices (-g). This many of `threads` belong to one of nccl-tests' threads.
  int devices = 1;
  int graph_launches = 0;  // -G; 0: calls are not captured
  bool pin = true;
  bool limits = false;
  bool counters = false;
  std::string json_file;
  std::string csv_file;
  std::string html_file;
  std::string beside_file;    // a kept result that is drawn in --html
  std::string baseline_file;  // a kept result that judges this run
  double tolerance_percent = 5;
  std::string adapters;   // WREATH_HCA; empty: as the environment says
  std::string peer;       // measured in turns (peer.hpp); empty: none
  std::string peer_file;  // of the peer that is a library
  CommunicatorOptions communicator;
  // The descriptor from which a process that launch() started reads its place.
  int start_descriptor = -1;
  std::vector<std::string> command;  // as typed, for the reports
};

// A text to print instead of running: the help on stdout (exit_code 0), or an error on stderr.
struct Stop {
  int exit_code;
  std::string text;
};

// Reads a command line. Messages name the flag and its value, and their exit_code is 2.
std::variant<Options, Stop> parse_options(const CollectiveRow& row, const std::vector<std::string>& command);

// Checks whether the files to write at the end can be written. The Stop names the first that cannot.
std::variant<std::monostate, Stop> check_output_files(const Options& options);

}  // namespace wreath::perf
