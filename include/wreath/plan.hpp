// Shows and proves schedules, for `wreath plan` and for authors of algorithms.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "wreath/algorithm.hpp"
#include "wreath/result.hpp"

namespace wreath {

inline constexpr std::uint32_t kUnlimited = std::numeric_limits<std::uint32_t>::max();

// One point of a proof. The defaults make tiles small, so that a few elements have several tiles.
struct VerifyOptions {
  std::uint64_t count = 0;  // elements of the vector, or of one block
  // The sizes of blocks that vary (rows with kVarying), in elements of rank r's block. For all_to_all, [s * ranks + d]
  // is the size of the block from s to d. If this is empty, all blocks have `count` elements.
  std::vector<std::uint64_t> block_counts{};
  std::uint32_t element_bytes = 64;
  std::uint64_t tile_bytes = 128;
  int data_lanes = 1;
  std::uint32_t slots = 2;  // messages a FIFO holds
  // The number of lanes of a rank that run at once: the lowest-numbered unfinished ones.
  std::uint32_t resident = kUnlimited;
  bool in_place = false;
  std::uint32_t operations = 2;  // back to back on the same buffers
};

// Proves one point. Every Output element that the collective owes has the right value: a sum, or the right rank's
// element. A sum has exactly one contribution per rank, of the right elements. Its order is canonical where the row
// says so, else one order on all ranks. Buffers that a rank does not have are not touched. Sums in Output are finished
// and never summed again. Both ends of a message agree on its bytes and form. Nothing undefined is read. No memory is
// written while an unordered lane, or the reader of a message sent by reference, may use it. No interleaving deadlocks,
// and no message is left over. Up to 64 ranks the sums are exact. Beyond that they are compared by random weights mod
// 2^61 - 1. The error Mismatch names rank, lane and step.
Status verify(const Algorithm& algorithm, const Problem& problem, const VerifyOptions& options);

// Proves all points of one problem. Counts are 0, 1, n-1, n, n+1 and 3 tiles + 1 per part. For blocks, they are 0, 1, a
// tile and 3 tiles + 1. Where the row has kVarying, three sets of blocks that vary are added. There are 1 and 3 data
// lanes, and 1, 2 and 8 slots. The row's minimum, 8 and all lanes are resident. Buffers are out of place and in place.
// Returns how many points these are. The error names the first point that fails.
Result<std::uint64_t> verify_all(const Algorithm& algorithm, const Problem& problem);

// A machine of equal links. Each message takes `latency_us` + bytes / bandwidth from its sender to its receiver, where
// it stays until it is taken. A sender's messages leave one after the other. Reductions and copies run at their own
// speeds.
struct FlatModel {
  double latency_us = 1;
  double bandwidth_gb_s = 10;  // 1e9 bytes a second
  double reduction_gb_s = 20;  // of sources read
  double copy_gb_s = 20;
  // The time that each end spends on a message.
  double message_us = 0;
  // The sender copies first what it sends.
  bool staged = false;
  // The copies and reductions of a rank's lanes wait for each other.
  bool one_core = false;
};

struct Simulated {
  double time_us = 0;  // until the last rank is over
  // The number of messages on the longest chain of messages that wait for each other.
  int steps = 0;
  std::uint64_t bytes = 0;     // bytes of the rank that sends most bytes
  std::uint64_t messages = 0;  // messages of the rank that sends most messages
};

// Times one call of the lowered schedule on such a machine, by the same run that verify() makes.
Result<Simulated> simulate(const Algorithm& algorithm, const Problem& problem, const VerifyOptions& shape,
                           const FlatModel& model = {});

// The shape of the call for which a plan is printed.
struct PlanShape {
  // The bytes of the vector, or of all ranks' blocks together. For all_to_all they are those of one rank's Input.
  std::uint64_t bytes = 0;
  std::uint32_t element_bytes = 4;
  std::uint64_t tile_bytes = 256 * 1024;
  int data_lanes = 1;
};

// Returns the point at which verify() and simulate() look at that shape.
VerifyOptions point_of(const Problem& problem, const PlanShape& shape);

// Returns the steps of rank `rank` as executors read them, lane by lane, with the elements that each works on. Returns
// InvalidArgument where the algorithm does not support the problem or a number is out of range.
Result<std::string> show_plan(const Algorithm& algorithm, const Problem& problem, Rank rank, const PlanShape& shape);

// The table of costs is plain text, or a whole page in Markdown (docs/algorithms.md).
enum class TableStyle : std::uint8_t { Text, Markdown };
// Returns every row of the registry with its order and its cost on 8 and on 6 ranks.
std::string cost_table(TableStyle style);

}  // namespace wreath
