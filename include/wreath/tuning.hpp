// Keeps what was measured on a machine in a file for its communicators, and explains why a call gets its plan.
//
// `wreath tune` writes such a file, communicators read it (CommunicatorOptions::tuning), and `wreath plan explain`
// shows it.
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

// Records how long calls took with one algorithm and tile.
struct TuningTime {
  Collective collective = Collective::AllReduce;
  int ranks = 2;
  // Names the transport of the wire that links the ranks; empty where all ranks map each other's memory.
  std::string wire;
  // Counts the bytes of the vector, or of all ranks' blocks together (for all_to_all, of one rank's input).
  std::size_t bytes = 0;
  std::string algorithm;
  // Holds the tile; 0 for the library's own, as on the path of small messages.
  std::size_t tile_bytes = 0;
  double time_us = 0;
  // Is true where every rank has a GPU and the buffers are its memory; else the buffers are the host's.
  bool device = false;
};

// Records the least time that the machine's memory, cores and loopback allow for such a call.
struct TuningLimit {
  Collective collective = Collective::AllReduce;
  int ranks = 2;
  std::string wire;
  std::size_t bytes = 0;
  double time_us = 0;
};

struct Tuning {
  // Holds the machine_name() of the machine that was measured.
  std::string machine;
  // Holds the version of the library.
  std::string library;
  // Names the GPU of the times with `device`; empty where there are none.
  std::string device;
  // Holds the time of a flag's way from core to core; 0 where it is unknown.
  double flag_ns = 0;
  std::vector<TuningTime> times;
  std::vector<TuningLimit> limits;
};

// Returns the processor's name and the number of processors: machines of the same name take each other's tuning.
std::string machine_name();
// Returns the name of the first GPU that CUDA's driver has, by the kernel's files; "unnamed" where they know of none.
std::string gpu_name();
// Returns the path that `wreath tune` writes and communicators read. It is wreath/tuning-HASH.json in the user's
// cache folder ($XDG_CACHE_HOME, else ~/.cache), where HASH is of machine_name(). Returns an empty path where there
// is no such folder.
std::string default_tuning_path();

// Returns a tuning of this machine and library, without times yet.
Tuning empty_tuning();

std::string to_json(const Tuning& tuning);
// Reads the text of a tuning file. Any text is safe to give; InvalidArgument names `source` and says what is wrong.
Result<Tuning> parse_tuning(std::string_view text, std::string_view source);
// Reads a tuning file of up to 4 MiB. Fails with System where there is none.
Result<Tuning> read_tuning(const std::string& path);
// Fails with InvalidArgument where the tuning was measured on another machine, with another GPU, or by another
// version of the library.
Status check_origin(const Tuning& tuning, std::string_view source);
// Writes the file whole or not at all, and makes the folder that it is in.
Status write_tuning(const Tuning& tuning, const std::string& path);

// Calls of more ranks are not predicted, for a simulation of them takes minutes.
inline constexpr int kMostPredictedRanks = 64;

// Describes a call whose plan is asked for.
struct PlanQuestion {
  Collective collective = Collective::AllReduce;
  std::size_t bytes = 0;
  int ranks = 2;
  std::string wire;
  // Is false for links without constants: these are of mapped memory and of streams.
  bool predictable = true;
  bool reproducible = true;
  // Is true where the ranks have GPUs and the buffers are on them.
  bool device = false;
};

// Describes one row of the table of algorithms, as an answer.
struct PlanCandidate {
  const Algorithm* algorithm = nullptr;
  std::size_t tile_bytes = 0;
  int data_lanes = 1;
  // Is true for the path of small messages, which has no steps.
  bool small = false;
  // Holds the simulator's time, with constants of a kind of link of hosts (not of this machine).
  std::optional<double> predicted_us;
  // Holds the tuning's time; between two measured sizes it is on the line between their times.
  std::optional<double> measured_us;
  // Says why the row may not be chosen; empty where it may be.
  std::string refusal;
};

struct PlanExplanation {
  PlanCandidate chosen;
  // Is true where the tuning chose the plan; else the rules of this library did.
  bool tuned = false;
  std::vector<PlanCandidate> others;
  std::optional<double> limit_us;
  // The bytes of slots that messages of a middle size use in turn, where ranks of this machine share memory; else 0.
  std::size_t ring_bytes = 0;
  // Is true where the two ranks of this machine fill the slots that they have read last.
  bool ping_pong = false;
  // Calls of the collective above the first and up to the second are copied by the kernel out of the sender's memory,
  // where it lets ranks of this machine read each other. Both are 0 where none are.
  std::size_t copied_above_bytes = 0;
  std::size_t copied_to_bytes = 0;
};

// Returns what a communicator that reads `tuning` (null for none) would choose, and what else there is. Fails with
// Unavailable where no row serves.
Result<PlanExplanation> explain_plan(const PlanQuestion& question, const Tuning* tuning);

}  // namespace wreath
