// What an operation and its lanes are while they run: plain data, which also lives on a device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/memory_order.hpp"
#include "src/schedule/geometry.hpp"
#include "src/schedule/step.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

enum class Advance : std::uint8_t { Advanced, Blocked, Done, Failed };

// Why try_step failed, and on which message.
enum class Fault : std::uint8_t { None, Signature, Bytes, Region, OwnerAborted, Unreadable };

// The algorithms that also stand as text-book loops (src/executor/handwritten).
enum class HandwrittenLoop : std::uint8_t {
  None,
  RingAllReduce,
  RingReduceScatter,
  RingAllGather,
  TwoShotAllReduce,
  PointToPoint,
};

inline constexpr std::uint64_t kNotBegun = ~std::uint64_t{0};

// A lane in flight. Written by the thread that drives it only.
struct LaneState {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  std::uint32_t step = 0;
  std::uint32_t tile = 0;
  std::uint64_t elements = kNotBegun;  // of the present step in this tile, all chunks together
  std::uint16_t index = 0;             // among the rank's lanes: whose places in Scratch and Partial are its own
  std::uint16_t data_lane = 0;
  std::uint16_t number = 0;       // that its messages carry
  std::uint16_t arrived = 0;      // messages of the present step that are known to be here
  bool received = false;          // the receiving half of a fused step is done
  bool reads_references = false;  // ... of which some are in their senders' own memory
  bool referenced = false;        // sent user memory by reference: end only when it was read
  bool named = false;             // the last step moved no data: it told readers where to find it
  bool local = false;             // LoweredLane::local
  bool done = false;
  Fault fault = Fault::None;
  std::uint16_t fault_source = 0;  // index into sources
  std::int32_t fault_errno = 0;    // of Unreadable
  std::uint64_t sent_bytes = 0;    // of published messages: a message to several targets counts for each
};

// Which changes of form are plain copies: Arithmetic::moves for all pairs. All are where nothing is combined.
struct Conversions {
  std::uint8_t plain = 0b1111;
  bool premultiplies = false;  // inputs are multiplied, and sent as Partial

  WREATH_HOST_DEVICE static unsigned bit(Form from, Form to) {
    return static_cast<unsigned>(from) * 2U + static_cast<unsigned>(to);
  }
  WREATH_HOST_DEVICE bool moves(Form from, Form to) const { return ((plain >> bit(from, to)) & 1U) != 0; }
};

// What all lanes of one rank share during an operation. Plain pointers: it also lives on a device.
struct OperationState {
  // Of the call.
  Geometry geometry{};
  std::byte* buffers[kBuffers] = {};    // by Buffer. Scratch, Partial: the places of all lanes
  std::uint32_t region[kBuffers] = {};  // how peers name Input or Output; 0: they cannot
  std::uint64_t region_offset[kBuffers] = {};
  const std::uint32_t* input_signatures = nullptr;   // of messages sent from Input, by part; null: `signature`
  const std::uint32_t* output_signatures = nullptr;  // of messages received, by part of their target; as above
  std::uint32_t signature = 0;
  std::uint16_t epoch = 0;
  std::uint64_t device = 0;                 // whose memory Input and Output are, as slots name it; 0: the host's
  std::uint64_t allocation[kBuffers] = {};  // ... in which of its allocations; 0: in several, or untold
  std::uint64_t single_copy_bytes = 0;      // peers read messages of so many bytes where they are; 0: none
  // Of the plan and the processor.
  Conversions conversions{};
  bool step_major = false;             // Lowered::step_major
  bool streams_output = false;         // what is written to Output goes past the caches
  std::uint32_t slots[kBuffers] = {};  // places of a lane in Scratch and Partial, each of one tile
  const Step* steps = nullptr;
  const std::uint32_t* several = nullptr;        // Lowered::several
  SendFifo* const* targets = nullptr;            // by Lowered::targets
  RecvFifo* const* sources = nullptr;            // by Lowered::sources
  HandwrittenLoop loop = HandwrittenLoop::None;  // advances the lanes in place of their steps
  std::uint32_t ranks = 1;                       // of the loop's communicator: two or more
  std::uint32_t rank = 0;                        // this rank in that communicator
};

}  // namespace wreath
