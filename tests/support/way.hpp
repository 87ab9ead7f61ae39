// Describes a way to run calls: a name of the registry over one transport, and the rows that have that name.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "src/executor/handwritten/handwritten.hpp"
#include "tests/support/transports.hpp"
#include "wreath/algorithm.hpp"
#include "wreath/communicator.hpp"
#include "wreath/transport.hpp"

namespace wreath::test {

// Names one algorithm of the registry over one transport. A name may stand for rows of several collectives.
struct Way {
  std::string algorithm;
  std::string transport;
  std::size_t single_copy_bytes = 0;  // the same as in the options
  bool handwritten = false;           // runs the handwritten loops

  bool operator==(const Way&) const = default;
};

// Returns every transport that can be used here, with the tuner's choice. For shm there is one more way, in which all
// messages are read out of their senders' memory.
inline std::vector<Way> transport_ways() {
  std::vector<Way> ways;
  for (const std::string& transport : usable_transports()) ways.push_back({"", transport});
  ways.push_back({"", "shm", 1});
  return ways;
}

inline bool has_loop(const Algorithm& row) {
  return handwritten_loop(row.collective, row.name) != HandwrittenLoop::None;
}

inline std::set<std::string> names_with_loops() {
  std::set<std::string> names;
  for (const Algorithm& row : algorithms()) {
    if (has_loop(row)) names.emplace(row.name);
  }
  return names;
}

inline std::vector<Way> all_ways() {
  std::vector<Way> ways;
  for (const Way& transport : transport_ways()) {
    std::vector<std::string_view> names;
    for (const Algorithm& row : algorithms()) {
      if (std::find(names.begin(), names.end(), row.name) == names.end()) names.push_back(row.name);
    }
    for (const std::string_view each : names) {
      ways.push_back({std::string(each), transport.transport, transport.single_copy_bytes});
    }
    for (const std::string& each : names_with_loops()) {
      ways.push_back({each, transport.transport, transport.single_copy_bytes, true});
    }
  }
  return ways;
}

// Returns a name for a test, made of letters, digits and underscores.
inline std::string test_name(const testing::TestParamInfo<Way>& info) {
  return info.param.algorithm + "_" + info.param.transport + (info.param.single_copy_bytes > 0 ? "_single_copy" : "") +
         (info.param.handwritten ? "_handwritten" : "");
}

inline CommunicatorOptions options_of(const Way& way) {
  CommunicatorOptions options;
  options.transports = {way.transport};
  options.overrides.algorithm = way.algorithm;
  options.overrides.single_copy_bytes = way.single_copy_bytes;
  options.overrides.executor = way.handwritten ? "handwritten" : "steps";
  return options;
}

// Returns the rows of that name that move data, serve so many ranks and have all of `traits`.
inline std::vector<const Algorithm*> rows_of(const Way& way, int ranks, unsigned traits = 0) {
  std::vector<const Algorithm*> rows;
  for (const Algorithm& row : algorithms()) {
    const bool fits = row.name == way.algorithm && row.collective != Collective::Barrier &&
                      (row.traits & traits) == traits && (!way.handwritten || has_loop(row));
    if (fits && row.supports({row.collective, ranks, 0})) rows.push_back(&row);
  }
  return rows;
}

// Returns text such as "shm, single copy".
inline std::string link_text(const Way& way) {
  return way.transport + (way.single_copy_bytes > 0 ? ", single copy" : "");
}

inline std::string text_of(const Way& way) {
  return (way.algorithm.empty() ? "the tuner's choice" : way.algorithm) + " over " + link_text(way) +
         (way.handwritten ? ", handwritten" : "");
}

}  // namespace wreath::test
