// A result that an earlier run wrote with --json: read again to be drawn beside a new one, or to judge it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "perf/common/report.hpp"

namespace wreath::perf {

// What times depend on besides the library. Empty texts and 0 ranks or hosts: not known.
struct Setup {
  std::string program;
  std::string cpu;
  int ranks = 0;
  int hosts = 0;
  std::string transport;
  std::string buffers;  // memory, offset, elements before the first
  std::string timing;   // what is inside the clock, and whose time stands for all
};
// Of a run that is about to start, with `ranks` where they are known; of one that ended.
Setup setup_of(const CollectiveRow& row, const Options& options, int ranks);
Setup setup_of(const Report& report);

// "ranks 4, here 2", one per known difference.
std::vector<std::string> differences(const Setup& kept, const Setup& now);

struct KeptTime {
  double time_us = 0;
  double algorithm_gbps = 0;
  double bus_gbps = 0;
  std::optional<Interval> interval_us;  // where the run was repeated often enough
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

  // The row of the same size, dtype, operator and root; null: there is none.
  const KeptRow* find(const Report& report, const Case& work) const;
  // "kept.json (tcp)": the file, and what it does not share with the run that it stands beside.
  std::string label(const Setup& now) const;
};

// Reads a file of ours; one of nccl-tests' layout where numbers are texts is read, too. Errors name flag and file.
Result<Kept> read_kept(std::string_view flag, const std::string& path);

}  // namespace wreath::perf
