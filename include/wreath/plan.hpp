// Looking at schedules and proving them: for `wreath plan`, and for whoever writes an algorithm.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "wreath/algorithm.hpp"
#include "wreath/result.hpp"

namespace wreath {

inline constexpr std::uint32_t kUnlimited = std::numeric_limits<std::uint32_t>::max();

// One point of a proof. The defaults make tiles small, so that a few elements have several.
struct VerifyOptions {
  std::uint64_t count = 0;  // elements of the vector, or of one block
  // Blocks that vary (rows with kVarying): elements of rank r's block; of all_to_all, [s * ranks + d] from s to d.
  // Empty: all have `count`.
  std::vector<std::uint64_t> block_counts{};
  std::uint32_t element_bytes = 64;
  std::uint64_t tile_bytes = 128;
  int data_lanes = 1;
  std::uint32_t slots = 2;              // messages a FIFO holds
  std::uint32_t resident = kUnlimited;  // lanes of a rank that run at once: the lowest-numbered unfinished ones
  bool in_place = false;
  std::uint32_t operations = 2;  // back to back on the same buffers
};

// Proves one point: every Output element the collective owes is what it should be (the sum of exactly one contribution
// per rank, of the right elements, in canonical order where the row says so and in one order on all ranks where not;
// or the right rank's element), buffers that a rank does not have are not touched, sums in Output are finished and
// never summed again; both ends of a message agree on its bytes and form; nothing undefined is read; no memory is
// written while an unordered lane, or the reader of a message sent by reference, may use it; no interleaving deadlocks;
// no message is left over. Up to 64 ranks the sums are exact, beyond they are compared by random weights mod 2^61 - 1.
// Mismatch names rank, lane and step.
Status verify(const Algorithm& algorithm, const Problem& problem, const VerifyOptions& options);

// Proves all points of one problem: counts 0, 1, n-1, n, n+1 and 3 tiles + 1 per part (of blocks: 0, 1, a tile, 3 tiles
// + 1, and, where the row has kVarying, three sets of blocks that vary); 1 and 3 data lanes; 1, 2 and 8 slots; the
// row's minimum, 8 and all lanes resident; out of place and in place. Returns how many points that is; the error names
// the first that fails.
Result<std::uint64_t> verify_all(const Algorithm& algorithm, const Problem& problem);

// A machine of equal links: each message takes `latency_us` + bytes / bandwidth from a sender, whose messages leave one
// after the other, to its receiver, where it stays until taken; reductions and copies run at their own speeds.
struct FlatModel {
  double latency_us = 1;
  double bandwidth_gb_s = 10;  // 1e9 bytes a second
  double reduction_gb_s = 20;  // of sources read
  double copy_gb_s = 20;
  double message_us = 0;  // of each end's time, for a message
  bool staged = false;    // what is sent is copied first, by the sender
  bool one_core = false;  // copies and reductions of a rank's lanes wait for each other
};

struct Simulated {
  double time_us = 0;          // until the last rank is over
  int steps = 0;               // messages on the longest chain that wait for each other
  std::uint64_t bytes = 0;     // sent by the rank that sends most
  std::uint64_t messages = 0;  // of the rank that sends most messages
};

// Times one call of the lowered schedule on such a machine, by the same run that verify() makes.
Result<Simulated> simulate(const Algorithm& algorithm, const Problem& problem, const VerifyOptions& shape,
                           const FlatModel& model = {});

// What a plan is printed for.
struct PlanShape {
  std::uint64_t bytes = 0;  // of the vector, or of all ranks' blocks together (of one rank's Input, for all_to_all)
  std::uint32_t element_bytes = 4;
  std::uint64_t tile_bytes = 256 * 1024;
  int data_lanes = 1;
};

// The point at which verify() and simulate() look at that shape.
VerifyOptions point_of(const Problem& problem, const PlanShape& shape);

// The steps of rank `rank` as executors read them, lane by lane, with the elements each works on. InvalidArgument
// where the algorithm does not support the problem or a number is out of range.
Result<std::string> show_plan(const Algorithm& algorithm, const Problem& problem, Rank rank, const PlanShape& shape);

// Every row of the registry with its order and its cost on 8 and on 6 ranks; as Markdown, a whole page
// (docs/algorithms.md).
enum class TableStyle : std::uint8_t { Text, Markdown };
std::string cost_table(TableStyle style);

}  // namespace wreath
