// Defines the table of situations, with the errors that each rank then gets.
#pragma once

#include <string>
#include <vector>

#include "tests/support/processes.hpp"

namespace wreath::testing_support::sentences {

inline constexpr unsigned kNobody = 65'534;  // a user that a rank, or another process, becomes

// The parent does one of these to a row's ranks; see scene.cpp.
enum class Act { None, ResetALink, CutTheWay, HoldTheirPlace, TakeTheirPorts };

// Says what the hosts of a row are made of. One host has all ranks; each of several hosts has two.
enum class Hosts { One, Namespaces, Wire };

// Says with which error these ranks end.
struct Says {
  std::vector<int> ranks;
  ErrorCode code;
  std::vector<int> blames;        // one of these is at fault; -1: nobody
  std::vector<std::string> says;  // regular expressions, all in the error
  std::string never = "";         // a regular expression that is not in it
  std::string warns = "";         // one that is in the rank's log before
};

struct Row {
  std::string situation;
  // The script of each rank: steps of speak.cpp, with ';' between them.
  std::vector<std::string> scripts;
  // The errors of some ranks. Without any errors all ranks end well; with some, no other rank is checked.
  std::vector<Says> errors = {};
  std::vector<std::string> transports = {"shm", "tcp"};
  // All ranks meet. With false the errors are errors of the start.
  bool starts = true;
  // The time that the start may take where it fails.
  int start_ms = kClockMs;
  int arrival_ms = kClockMs;        // the time after which a rank that has not entered is missed
  std::int64_t within_ms = 10'000;  // after the start, or once all have met
  Arguments environment = {};       // for all ranks
  std::vector<Arguments> own = {};  // for each rank
  Act act = Act::None;
  Hosts hosts = Hosts::One;
};

// Gtest prints a row by its situation.
inline void PrintTo(const Row& row, std::ostream* out) { *out << row.situation; }

std::vector<Row> rows_of_calls();
std::vector<Row> rows_of_starts();

}  // namespace wreath::testing_support::sentences
