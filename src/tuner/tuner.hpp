// Chooses algorithm, data lanes and tile for a call, from what all ranks know to be equal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "src/tuner/measured.hpp"
#include "src/tuner/single_copy.hpp"
#include "wreath/algorithm.hpp"
#include "wreath/fifo.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Holds the largest messages of the path of small messages: of an all_reduce, of calls with a root, and of others.
// Larger ones go through FIFOs.
struct SmallLimits {
  std::size_t sum_bytes = std::size_t{16} << 10;
  std::size_t rooted_bytes = std::size_t{6} << 10;
  std::size_t block_bytes = std::size_t{6} << 10;
};

// Holds what a communicator's choices depend on. It is equal on all ranks.
struct TunerContext {
  int ranks = 1;
  // Names the transport of the wires between ranks, as LinkFacts does; empty where every pair maps each other's memory.
  std::string wire;
  // Allows only canonical rows, unless one is named.
  bool reproducible = true;
  // Names a row, for the collectives that have it; where it is empty, choose() chooses.
  std::string algorithm;
  int data_lanes = 0;          // 0: choose
  std::size_t tile_bytes = 0;  // 0: choose
  // Is the largest tile.
  std::size_t slot_bytes = 0;
  // These rules come before the library's own.
  MeasuredRules measured = {};
  // Is true where some host has fewer cores than ranks.
  bool crowded = false;
  // Is true where every rank uses a GPU.
  bool gpus = false;
  SmallLimits small = {};
  // Where both of two ranks fill ping-pong slots, these say for which calls.
  std::optional<PairSizes> ping_pong = {};
  // Is true where every rank may read every other's messages through the kernel.
  bool single_copy = false;

  bool all_mapped() const { return wire.empty(); }
  // Returns the largest tile that finds a place in any slots.
  std::size_t largest_tile() const { return ping_pong ? std::min(slot_bytes, PingPongSlots::kMostBytes) : slot_bytes; }
};

// Communicators that have the room have tiles of so many bytes.
inline constexpr std::size_t kLargestTile = std::size_t{512} << 10;

// Returns the context of a communicator without settings of its own that has room for the largest tile.
TunerContext plain_context(int ranks, std::string_view wire, bool reproducible);

inline constexpr std::size_t kUnknownBytes = std::numeric_limits<std::size_t>::max();

// Holds what a choice depends on beside the context. It is equal on all ranks.
struct Query {
  Collective collective = Collective::AllReduce;
  // Counts the bytes of the vector, or of all ranks' blocks together; kUnknownBytes where ranks cannot know.
  std::size_t bytes = 0;
  bool varying = false;  // blocks differ in size
  // Is true where inputs are multiplied as they enter a sum.
  bool premultiplied = false;
  bool operator==(const Query&) const = default;
};

struct Choice {
  const Algorithm* algorithm = nullptr;  // null: no row serves the query
  int data_lanes = 1;
  std::size_t tile_bytes = 0;
  // Is true for the path of small messages, which has no steps.
  bool small = false;
};

// Fails with InvalidArgument when the named row does not serve so many ranks in any collective. The message lists the
// rows that do.
Status check_tuning(const TunerContext& context);

Choice choose(const TunerContext& context, const Query& query);

// Returns the rule that was measured for such calls and may be used; null where there is none, or a row is named.
const MeasuredRule* measured_rule(const TunerContext& context, const Query& query);

// Returns why choose() may not take `row`, one of the query's collective; empty where it may.
std::string why_not(const TunerContext& context, const Algorithm& row, const Query& query);

// Returns why choose() takes its row: "asked for by name", "measured on this machine" or "by rule".
std::string_view why(const TunerContext& context, const Query& query);

// Returns the Unavailable error that says why choose() found no row.
Error no_row(const TunerContext& context, const Query& query);

// Returns "two_shot lanes=1 tile=256K order=canonical", with "tile=small" for the path of small messages; or "none".
std::string describe(const Choice& choice);

}  // namespace wreath
