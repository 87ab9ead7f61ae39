// A result that an earlier run wrote with --json. It is drawn beside a new one, or judges it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "perf/common/report.hpp"

namespace wreath::perf {

// The circumstances on which times depend besides the library. Empty texts and 0 ranks or hosts are unknown.
struct Setup {
  std::string program;
  std::string cpu;
  int ranks = 0;
  int hosts = 0;
  std::string transport;
  std::string buffers;  // memory, offset, elements before the first
  // The work that is timed, and the rank whose time stands for all.
  std::string timing;
};
// Returns the setup of a run that is about to start, with `ranks` where they are known.
Setup setup_of(const CollectiveRow& row, const Options& options, int ranks);
// Returns the setup of a run that has ended.
Setup setup_of(const Report& report);

// Returns a text for each known difference, such as "ranks 4, here 2".
std::vector<std::string> differences(const Setup& kept, const Setup& now);

struct KeptTime {
  double time_us = 0;
  double algorithm_gbps = 0;
  double bus_gbps = 0;
  // The interval, where the run was repeated often enough.
  std::optional<Interval> interval_us;
};

struct KeptRow {
  std::size_t bytes = 0;
  std::string dtype;  // as tables spell it
  std::string op;
  int root = -1;
  std::string plan;
  std::optional<KeptTime> out_of_place;
  std::optional<KeptTime> in_place;
};

struct Kept {
  std::string path;
  Setup setup;
  std::string commit;
  std::string start_time;
  std::vector<KeptRow> rows;

  // Returns the row of the same size, dtype, operator and root; null: there is none.
  const KeptRow* find(const Report& report, const Case& work) const;
  // Returns the file and its differences from the run that it stands beside, such as "kept.json (tcp)".
  std::string label(const Setup& now) const;
};

// Reads a file of a perf tool, or a file in nccl-tests' layout where numbers are texts. Errors name the flag and the
// file.
Result<Kept> read_kept(std::string_view flag, const std::string& path);

}  // namespace wreath::perf
