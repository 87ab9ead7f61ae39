// The state of an operation and its lanes while they run. It is plain data, which also lives on a device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/memory_order.hpp"
#include "src/schedule/geometry.hpp"
#include "src/schedule/step.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

enum class Advance : std::uint8_t { Advanced, Blocked, Done, Failed };

// The reason for which try_step failed on a message.
enum class Fault : std::uint8_t { None, Signature, Bytes, Region, OwnerAborted, Unreadable };

// The algorithms that also exist as textbook loops (src/executor/handwritten).
enum class HandwrittenLoop : std::uint8_t {
  None,
  RingAllReduce,
  RingReduceScatter,
  RingAllGather,
  TwoShotAllReduce,
  PointToPoint,
};

inline constexpr std::uint64_t kNotBegun = ~std::uint64_t{0};
inline constexpr std::uint32_t kNonePosted = ~std::uint32_t{0};

// A lane in flight. Only the thread that drives the lane writes its state.
struct LaneState {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  std::uint32_t step = 0;
  std::uint32_t tile = 0;
  // The elements of the present step in this tile, all chunks together.
  std::uint64_t elements = kNotBegun;
  // The lane's index among the rank's lanes. It selects the lane's own places in Scratch and Partial.
  std::uint16_t index = 0;
  std::uint16_t data_lane = 0;
  // The number that its messages carry.
  std::uint16_t number = 0;
  // The number of messages of the present step that are known to be here.
  std::uint16_t arrived = 0;
  // The receiving half of a fused step is done.
  bool received = false;
  // Some of the received messages are in their senders' own memory.
  bool reads_references = false;
  // The lane sent user memory by reference, so it ends only when that memory was read.
  bool referenced = false;
  // The last step moved no data: it told readers where to find the data.
  bool named = false;
  bool local = false;  // LoweredLane::local
  bool done = false;
  Fault fault = Fault::None;
  std::uint16_t fault_source = 0;  // index into sources
  std::int32_t fault_errno = 0;    // of Unreadable
  // The places of the messages before this step of this tile were posted, where FIFOs take them ahead.
  std::uint32_t posted_step = kNonePosted;
  std::uint32_t posted_tile = 0;
  // The bytes of published messages, and of messages whose slots were given back. A message to several targets, or
  // several messages at once, count for each.
  std::uint64_t sent_bytes = 0;
  std::uint64_t taken_bytes = 0;
};

// The data for Output that goes past the caches.
enum class Streamed : std::uint8_t {
  Nothing,
  Own,  // what a rank copies from its own Input
  All,
};

// The order in which a rank's lanes that can go on do so.
enum class LaneOrder : std::uint8_t {
  Turns,
  // The one of the lowest number first. Lanes get ahead of others by as many messages as there are headers.
  Lowest,
};

// The state that all lanes of one rank share during an operation. It has plain pointers, because it also lives on a
// device.
struct OperationState {
  // The call sets these fields.
  Geometry geometry{};
  // The buffers by Buffer. Scratch and Partial are the places of all lanes.
  std::byte* buffers[kBuffers] = {};
  // The number by which peers name Input or Output, or 0 where they cannot.
  std::uint32_t region[kBuffers] = {};
  std::uint64_t region_offset[kBuffers] = {};
  // The signatures of messages sent from Input, by part. If this is null, `signature` holds.
  const std::uint32_t* input_signatures = nullptr;
  // The signatures of received messages, by part of their target. If this is null, `signature` holds.
  const std::uint32_t* output_signatures = nullptr;
  std::uint32_t signature = 0;
  std::uint16_t epoch = 0;
  // The device whose memory Input and Output are, as slots name it. The host is 0.
  std::uint64_t device = 0;
  // The allocation of that device, or 0 where there are several or it is unknown.
  std::uint64_t allocation[kBuffers] = {};
  // Peers read messages of so many bytes or more where the messages are. 0 means that they read none.
  std::uint64_t single_copy_bytes = 0;
  // The plan and the processor set these fields.
  // The changes of form that are plain copies, a bit for each: Arithmetic::moves for all pairs. All are plain where
  // nothing is combined.
  std::uint8_t plain_forms = 0b1111;
  bool premultiplies = false;  // inputs are multiplied, and sent as Partial
  bool step_major = false;     // Lowered::step_major
  // Nothing is combined, so that messages may land where steps would copy them, here and at the peers.
  bool lands = false;
  Streamed streamed = Streamed::Nothing;
  LaneOrder order = LaneOrder::Turns;
  // The number of a lane's places in Scratch and Partial, each of one tile.
  std::uint32_t slots[kBuffers] = {};
  const Step* steps = nullptr;
  const std::uint32_t* several = nullptr;  // Lowered::several
  SendFifo* const* targets = nullptr;      // by Lowered::targets
  RecvFifo* const* sources = nullptr;      // by Lowered::sources
  // The loop that advances the lanes in place of their steps.
  HandwrittenLoop loop = HandwrittenLoop::None;
  // The number of ranks of the loop's communicator, two or more.
  std::uint32_t ranks = 1;
  // The number of this rank in that communicator.
  std::uint32_t rank = 0;

  WREATH_HOST_DEVICE static unsigned forms_bit(Form from, Form to) {
    return static_cast<unsigned>(from) * 2U + static_cast<unsigned>(to);
  }
  WREATH_HOST_DEVICE bool moves(Form from, Form to) const { return ((plain_forms >> forms_bit(from, to)) & 1U) != 0; }
};

}  // namespace wreath
