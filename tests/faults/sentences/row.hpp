// The table of situations and of what each rank then says.
#pragma once

#include <string>
#include <vector>

#include "tests/support/processes.hpp"

namespace wreath::testing_support::sentences {

inline constexpr unsigned kNobody = 65'534;  // a user that a rank, or another process, becomes

// The parent does one of these to a row's ranks; see scene.cpp.
enum class Act { None, ResetALink, CutTheWay, HoldTheirPlace, TakeTheirPorts };

// The hosts of a row: what they are made of, and how many ranks each has.
enum class Hosts { One, Namespaces, Wire };

// These ranks end with this error.
struct Says {
  std::vector<int> ranks;
  ErrorCode code;
  std::vector<int> blames;        // one of these is at fault; -1: nobody
  std::vector<std::string> says;  // each, a regular expression, is in the error
  std::string never = "";         // this one is not
  std::string warns = "";         // this one is in what the rank logged before
};

struct Row {
  std::string situation;
  std::vector<std::string> scripts;  // of each rank: steps of speak.cpp, with ';' between them
  std::vector<Says> errors = {};     // of the others nothing is asked, but that they end well where there are none
  std::vector<std::string> transports = {"shm", "tcp"};
  bool starts = true;               // all ranks meet; else what is said is said of the start
  int start_ms = kClockMs;          // how long the start may take where it fails
  std::int64_t within_ms = 10'000;  // of the start, or once all have met
  Arguments environment = {};       // of all ranks
  std::vector<Arguments> own = {};  // of each
  Act act = Act::None;
  Hosts hosts = Hosts::One;
};

// Gtest prints a row by its situation.
inline void PrintTo(const Row& row, std::ostream* out) { *out << row.situation; }

std::vector<Row> rows_of_calls();
std::vector<Row> rows_of_starts();

}  // namespace wreath::testing_support::sentences
