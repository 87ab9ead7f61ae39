// Chooses algorithm, data lanes and tile for a call, from what all ranks know to be equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "src/tuner/measured.hpp"
#include "wreath/algorithm.hpp"
#include "wreath/result.hpp"

namespace wreath {

// What a communicator's choices depend on. Equal on all ranks.
struct TunerContext {
  int ranks = 1;
  bool all_mapped = true;       // every pair of ranks maps each other's memory
  bool reproducible = true;     // only canonical rows, unless one is named
  std::string algorithm;        // a named row, for the collectives that have it; empty: choose
  int data_lanes = 0;           // 0: choose
  std::size_t tile_bytes = 0;   // 0: choose
  std::size_t slot_bytes = 0;   // the largest tile
  MeasuredRules measured = {};  // before the library's own rules
  bool crowded = false;         // some host has fewer cores than ranks
  bool gpus = false;            // every rank uses a GPU
};

inline constexpr std::size_t kLargestTile = std::size_t{512} << 10;  // of communicators that have the room

// Of a communicator without settings of its own that has room for the largest tile.
TunerContext plain_context(int ranks, bool all_mapped, bool reproducible);

inline constexpr std::size_t kUnknownBytes = std::numeric_limits<std::size_t>::max();

// What a choice depends on beside that. Equal on all ranks.
struct Query {
  Collective collective = Collective::AllReduce;
  std::size_t bytes = 0;       // of the vector, or of all ranks' blocks together; kUnknownBytes: ranks cannot know
  bool varying = false;        // blocks differ in size
  bool premultiplied = false;  // inputs are multiplied where they enter a sum
  bool operator==(const Query&) const = default;
};

struct Choice {
  const Algorithm* algorithm = nullptr;  // null: no row serves the query
  int data_lanes = 1;
  std::size_t tile_bytes = 0;
  bool small = false;  // the path of small messages, without steps
};

// InvalidArgument when the named row does not serve so many ranks in any collective: the message lists the rows that
// do.
Status check_tuning(const TunerContext& context);

Choice choose(const TunerContext& context, const Query& query);

// What was measured for such calls; null where nothing was, or a row is named.
const MeasuredRule* measured_rule(const TunerContext& context, const Query& query);

// Why choose() may not take `row`, one of the query's collective; empty: it may.
std::string why_not(const TunerContext& context, const Algorithm& row, const Query& query);

// Why choose() takes what it takes: "asked for by name", "measured on this machine", "by rule".
std::string_view why(const TunerContext& context, const Query& query);

// Why choose() found no row: Unavailable.
Error no_row(const TunerContext& context, const Query& query);

// "two_shot lanes=1 tile=256K order=canonical", with "tile=small" for the path of small messages; "none".
std::string describe(const Choice& choice);

}  // namespace wreath
