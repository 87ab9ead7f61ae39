// What was measured on a machine, kept as a file for its communicators; and why a call gets the plan that it gets.
//
// `wreath tune` writes such a file, communicators read it (CommunicatorOptions::tuning), `wreath plan explain` shows
// it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wreath/algorithm.hpp"
#include "wreath/result.hpp"
#include "wreath/types.hpp"

namespace wreath {

// How long calls took with one algorithm and tile.
struct TuningTime {
  Collective collective = Collective::AllReduce;
  int ranks = 2;
  bool mapped = true;     // all ranks map each other's memory; else a wire links them
  std::size_t bytes = 0;  // of the vector, or of all ranks' blocks together (of one rank's input, for all_to_all)
  std::string algorithm;
  std::size_t tile_bytes = 0;  // 0: the library's own, as on the path of small messages
  double time_us = 0;
  bool device = false;  // every rank has a GPU, and the buffers are its memory; else the host's
};

// The least time that the machine's memory, cores and loopback allow for such a call.
struct TuningLimit {
  Collective collective = Collective::AllReduce;
  int ranks = 2;
  bool mapped = true;
  std::size_t bytes = 0;
  double time_us = 0;
};

struct Tuning {
  std::string machine;  // machine_name() where it was measured
  std::string library;  // its version
  std::string device;   // the GPU's name, of times with `device`; empty: there are none
  double flag_ns = 0;   // a flag's way from core to core; 0: unknown
  std::vector<TuningTime> times;
  std::vector<TuningLimit> limits;
};

// The processor and how many of them: machines of the same name take each other's tuning.
std::string machine_name();
// The first GPU's that CUDA's driver has, by the kernel's files; "unnamed": they know of none.
std::string gpu_name();
// Where `wreath tune` writes and communicators look: wreath/tuning-HASH.json in the user's cache folder
// ($XDG_CACHE_HOME, else ~/.cache), where HASH is of machine_name(). Empty: there is no such folder.
std::string default_tuning_path();

// Without times yet, of this machine and library.
Tuning empty_tuning();

std::string to_json(const Tuning& tuning);
// Any text is safe to give; InvalidArgument names `source` and says what is wrong.
Result<Tuning> parse_tuning(std::string_view text, std::string_view source);
// Reads such a file, up to 4 MiB. System where there is none.
Result<Tuning> read_tuning(const std::string& path);
// InvalidArgument where it was measured on another machine, with another GPU, or by another version of the library.
Status check_origin(const Tuning& tuning, std::string_view source);
// Writes it whole or not at all, and makes the folder that it is in.
Status write_tuning(const Tuning& tuning, const std::string& path);

// Calls of more ranks are not predicted: to simulate them takes minutes.
inline constexpr int kMostPredictedRanks = 64;

// A call whose plan is asked for.
struct PlanQuestion {
  Collective collective = Collective::AllReduce;
  std::size_t bytes = 0;
  int ranks = 2;
  bool mapped = true;
  bool reproducible = true;
  bool device = false;  // of ranks with GPUs, on their memory
};

// One row of the table of algorithms, as an answer.
struct PlanCandidate {
  const Algorithm* algorithm = nullptr;
  std::size_t tile_bytes = 0;
  int data_lanes = 1;
  bool small = false;                  // the path of small messages, without steps
  std::optional<double> predicted_us;  // by the simulator, with constants of a kind of link of hosts (not this machine)
  std::optional<double> measured_us;   // from the tuning; between two measured sizes, on the line between their times
  std::string refusal;                 // why it may not be chosen; empty: it may
};

struct PlanExplanation {
  PlanCandidate chosen;
  bool tuned = false;  // the tuning chose it, else the rules of this library
  std::vector<PlanCandidate> others;
  std::optional<double> limit_us;
};

// What a communicator that reads `tuning` (null: none) would choose, and what else there is. Unavailable where no row
// serves.
Result<PlanExplanation> explain_plan(const PlanQuestion& question, const Tuning* tuning);

}  // namespace wreath
