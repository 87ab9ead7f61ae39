// The lowered form of a schedule: what executors read. Plain data, equal on host and device.
#pragma once

#include <cstdint>
#include <vector>

#include "wreath/schedule.hpp"
#include "wreath/types.hpp"

namespace wreath {

// A step is done once per tile, and not at all for a tile without elements: then no message is sent or taken. Fused
// steps (*Send) mean exactly their two parts in sequence: an executor that has a message but no credit does the first
// part and waits for the second. Fused steps and LoadReduce have one chunk.
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
  kStaged = 1,           // a sent message must be a copy: its source may change before it is read
  kTargetDead = 2,       // nothing reads the target but this step's own Send
  kPartialIncoming = 4,  // received messages are Partial
};

struct Step {
  StepOp op;
  std::uint8_t flags;
  Buffer source_buffer;
  Buffer target_buffer;
  std::uint32_t source_part;  // of several chunks: where their parts start in Lowered::several
  std::uint32_t target_part;
  std::uint16_t in_first;  // messages received: Lowered::sources[in_first .. + in_count)
  std::uint16_t in_count;
  std::uint16_t out_first;  // messages sent: Lowered::targets[out_first .. + out_count)
  std::uint16_t out_count;
  std::uint16_t own_place;    // LoadReduce: the place of `source` among the messages, in rank order
  std::uint16_t source_slot;  // Scratch and Partial: the place of the first chunk
  std::uint16_t target_slot;
  std::uint16_t chunks;  // of source and target alike, and of the message
  std::uint16_t reserved[2];
};
static_assert(sizeof(Step) == 32);

// One end of a FIFO: messages of `lane` (the sender's) to or from `peer`.
struct FifoEnd {
  Rank peer;
  std::uint16_t lane;
  bool operator==(const FifoEnd&) const = default;
};

// A lane: steps [first_step, first_step + step_count), repeated for every tile.
struct LoweredLane {
  std::uint32_t first_step;
  std::uint32_t step_count;
  std::uint16_t number;     // the lane number its messages carry: data_lane * strands + strand
  std::uint16_t data_lane;  // which share of every part it works on
  bool local = false;       // without messages: it waits for nobody
};

// One rank's lowered schedule. Independent of count and dtype; Geometry adds those per call.
struct Lowered {
  std::vector<Step> steps;
  std::vector<LoweredLane> lanes;
  std::vector<FifoEnd> sources;
  std::vector<FifoEnd> targets;
  std::vector<std::uint32_t> several;  // parts of steps with more than one chunk
  std::uint32_t parts = 1;
  std::uint32_t scratch_slots = 0;  // places of a lane in Scratch and Partial, each of one tile
  std::uint32_t partial_slots = 0;
  std::uint16_t data_lanes = 1;
  bool step_major = false;  // a lane does all tiles of a step before its next step; else all steps of a tile
};

// The part of chunk `index` of a step, whose source_part or target_part is `first`.
inline std::uint32_t part_of(const Lowered& program, const Step& step, std::uint32_t first, std::uint32_t index) {
  return step.chunks > 1 ? program.several[first + index] : first;
}

}  // namespace wreath
