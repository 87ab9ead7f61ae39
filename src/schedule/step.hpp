// The lowered form of a schedule, which executors read. It is plain data, equal on host and device.
#pragma once

#include <cstdint>
#include <vector>

#include "wreath/schedule.hpp"
#include "wreath/types.hpp"

namespace wreath {

// A step is done once per tile. For a tile without elements it is not done, and no message is sent or taken. Fused
// steps (*Send) mean exactly their two parts in sequence. An executor that has a message but no credit does the first
// part, and waits for the second. Fused steps and LoadReduce have one chunk.
enum class StepOp : std::uint8_t {
  Send,            // message(s) = source
  Recv,            // target = message
  RecvReduce,      // target = source + message
  LoadReduce,      // target = canonical sum of source and in_count messages
  Copy,            // target = source
  Reduce,          // target = target + source
  RecvSend,        // Recv, then Send of target
  RecvReduceSend,  // RecvReduce, then Send of target
  LoadReduceSend,  // LoadReduce, then Send of target
};

enum StepFlag : std::uint8_t {
  // A sent message must be a copy, because its source may change before it is read.
  kStaged = 1,
  // This step's own Send is the only reader of the target.
  kTargetDead = 2,
  // Received messages are Partial.
  kPartialIncoming = 4,
  // Nothing touches the target, which is in Output, before this step: the message may land there as soon as the
  // operation has begun.
  kLands = 8,
};

struct Step {
  StepOp op;
  std::uint8_t flags;
  Buffer source_buffer;
  Buffer target_buffer;
  // The part, or with several chunks the place in Lowered::several where their parts start.
  std::uint32_t source_part;
  std::uint32_t target_part;
  // The messages received are Lowered::sources[in_first .. + in_count).
  std::uint16_t in_first;
  std::uint16_t in_count;
  // The messages sent are Lowered::targets[out_first .. + out_count).
  std::uint16_t out_first;
  std::uint16_t out_count;
  // The place of `source` among the messages of a LoadReduce, in rank order.
  std::uint16_t own_place;
  // The place of the first chunk, in Scratch and Partial.
  std::uint16_t source_slot;
  std::uint16_t target_slot;
  // The number of chunks of source and target alike, and of the message.
  std::uint16_t chunks;
  std::uint16_t reserved[2];
};
static_assert(sizeof(Step) == 32);

// One end of a FIFO, for messages of `lane` (the sender's) to or from `peer`.
struct FifoEnd {
  Rank peer;
  std::uint16_t lane;
  bool operator==(const FifoEnd&) const = default;
};

// A lane has the steps [first_step, first_step + step_count), which are repeated for every tile.
struct LoweredLane {
  std::uint32_t first_step;
  std::uint32_t step_count;
  // The lane number that its messages carry: data_lane * strands + strand.
  std::uint16_t number;
  // The share of every part on which the lane works.
  std::uint16_t data_lane;
  // The lane has no messages, so it waits for no other lane.
  bool local = false;
};

// One rank's lowered schedule. It does not depend on count and dtype, which Geometry adds per call.
struct Lowered {
  std::vector<Step> steps;
  std::vector<LoweredLane> lanes;
  std::vector<FifoEnd> sources;
  std::vector<FifoEnd> targets;
  std::vector<std::uint32_t> several;  // parts of steps with several chunks
  std::uint32_t parts = 1;
  // The number of a lane's places in Scratch, each of one tile.
  std::uint32_t scratch_slots = 0;
  // The number of a lane's places in Partial, each of one tile.
  std::uint32_t partial_slots = 0;
  std::uint16_t data_lanes = 1;
  // A lane does all tiles of a step before its next step. Otherwise it does all steps of a tile before the next tile.
  bool step_major = false;
};

// Returns the part of chunk `index` of a step whose source_part or target_part is `first`.
inline std::uint32_t part_of(const Lowered& program, const Step& step, std::uint32_t first, std::uint32_t index) {
  return step.chunks > 1 ? program.several[first + index] : first;
}

}  // namespace wreath
