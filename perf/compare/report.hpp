// A comparison as data. It is saved after every start, so that it can be resumed, and is shown as text and as a page.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "perf/compare/results.hpp"
#include "wreath/result.hpp"

namespace wreath::perf {

// The time of a flag between the cores, before and after one round.
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
  std::map<int, Probe> probes;  // by round
  // The measurements that were not possible, and the reasons.
  std::vector<std::string> remarks;
  std::string calls{};  // which calls were timed: calls_text()
};

// The distance between the cores of a round: a virtual machine's cores move. Moved is a round whose flags differ.
enum class Distance { Near, Far, Moved };
// Returns the distance of each round. Near is within a quarter of the shortest way of a flag in any round.
std::map<int, Distance> distances(const Comparison& comparison);
// Returns the comparison with the rounds of that distance alone.
Comparison at_distance(const Comparison& comparison, Distance distance);

std::string to_json(const Comparison& comparison);
// Reads a comparison. Returns Mismatch where the file is none.
Result<Comparison> read_comparison(const std::string& path);

// Returns a table for each transport, the means, and the cells that count as slower.
std::string to_text(const Comparison& comparison);
// Returns a page with a plot for each transport and operation. It needs no other file.
std::string to_html(const Comparison& comparison);

}  // namespace wreath::perf
