// A comparison as data: saved after every start, so that it can be resumed, and shown as text and as a page.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "perf/compare/results.hpp"
#include "wreath/result.hpp"

namespace wreath::perf {

// The cores' distance around one round.
struct Probe {
  double before_ns = 0;
  double after_ns = 0;
};

struct Comparison {
  std::string command;
  std::string commit;
  std::string machine;
  std::string started;
  int ranks = 2;
  std::string congestion_control;  // of TCP; empty: unknown
  std::map<Cell, Contest> cells;
  std::map<int, Probe> probes;       // by round
  std::vector<std::string> remarks;  // what could not be measured, and why
};

std::string to_json(const Comparison& comparison);
// Mismatch: not such a file.
Result<Comparison> read_comparison(const std::string& path);

// A table for each transport, the means, and the cells that count as slower.
std::string to_text(const Comparison& comparison);
// A page with a plot for each transport and operation; no other file needed.
std::string to_html(const Comparison& comparison);

}  // namespace wreath::perf
