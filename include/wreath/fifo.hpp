// A FIFO of slots between two ranks: one producer, one consumer, K slots, memory both ends can reach.
//
// The producer writes a slot's data, then its header, then the header's sequence (release). The
// consumer polls that sequence (acquire), reads the data and advances `consumed` (release). Each
// end stores only into its own memory. Sequences count messages and wrap at 2^32.
// These are plain structs: the host executor, a CUDA block and a transport's pump all read them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wreath {

// One cache line. Says where a message's data is and which call it belongs to; or holds it, if it is tiny.
struct alignas(64) SlotHeader {
  std::uint32_t sequence;   // written last; the slot holds message `sequence` once this says so
  std::uint16_t epoch;      // of the communicator; a slot of another epoch is dropped
  std::uint16_t lane;       // the producer's lane
  std::uint32_t signature;  // hash of the call; differs: the ranks disagree
  std::uint32_t bytes;      // of data
  std::uint32_t flags;      // SlotFlag bits
  std::uint32_t region;     // index in the producer's region table, or one of the addresses below
  std::uint64_t offset;     // into the region; with these two the address itself
  std::byte data[32];       // of the message itself, with kSlotInline; with kDeviceAddress a DeviceAllocation
};
static_assert(sizeof(SlotHeader) == 64);

// The data is user memory, not a copy: the reader checks the owner's `aborted` counter afterwards.
inline constexpr std::uint32_t kSlotReference = 1;
// The data is in the header.
inline constexpr std::uint32_t kSlotInline = 2;

// The data is at an address of the consumer's own process (same process, or a pump put it there), where
// RecvFifo::same_process says that nobody else can have written so. Not 0, which names nothing: zeroed headers are
// none.
inline constexpr std::uint32_t kLocalAddress = 0xFFFFFFFD;

// The data is at an address of the producer's process, which the consumer reads through the kernel (RecvFifo::process).
inline constexpr std::uint32_t kPeerAddress = 0xFFFFFFFF;

// The data is in memory of a device that this process uses, at the address by which its kernels reach it. Between ranks
// of one process.
inline constexpr std::uint32_t kDeviceAddress = 0xFFFFFFFE;

// Whose memory that is.
struct DeviceAllocation {
  std::uint64_t device = 0;      // as this process names it; 0: none, it is the host's
  std::uint64_t allocation = 0;  // of the process: a number that no other one of the device has or will have; 0: untold
};

// A process whose memory this one reads through the kernel. What was read counts only if the token was found with it:
// else the process is gone, and another one has its number.
struct ProcessMemory {
  std::uint64_t token = 0;
  std::uint64_t token_address = 0;
  std::int32_t number = 0;  // as the process itself sees it
};

// Memory of a peer as this process sees it. base is null until it is mapped.
struct RegionView {
  const std::byte* base = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t device = 0;  // of this process, which reaches it there; 0: the host does
};
inline constexpr std::uint32_t kMaximumRegions = 64;  // a peer's region table; index 0 is not used

// Where a pump may put the data of message `sequence` instead of a slot: the receiving step's own
// target. The step posts it while it waits; the pump that used it sets the slot's address to it.
struct Landing {
  std::byte* target = nullptr;  // null: nothing posted
  std::uint32_t sequence = 0;
  std::uint32_t bytes = 0;
};

// A message that blocks of a device do not know to reach: the host brings it where they do, or lets them in to where it
// is, when one asks for it: `sequence` is then `wanted`.
struct alignas(32) PulledMessage {
  std::uint32_t wanted = 0;
  std::uint32_t sequence = 0;       // of the message at `data`
  const std::byte* data = nullptr;  // what follows is written before `sequence`, too
  std::uint32_t in_place = 0;       // non-zero: its sender's own memory; from now on they reach all of that allocation
};

// A counter or flag alone in its cache line.
struct alignas(64) Counter {
  std::uint32_t value = 0;
};

// What a producer knows of the time that its copies into slots take, plainly and past the caches, and which way it
// takes for that. Both in cycles a KiB, of the last three copies that were timed; 0: not known yet.
struct FillHistory {
  std::uint32_t plain[3] = {};
  std::uint32_t past_caches[3] = {};
  std::uint32_t turns = 0;  // copies until the end of the next trial of the other way; 0: none was counted yet
  bool past = false;        // the way of all copies but trials
};

// The producing end. Only the rank that owns it touches it.
struct SendFifo {
  SlotHeader* slots = nullptr;        // slot_count headers; the consumer (or pump) reads them
  const Counter* consumed = nullptr;  // messages the consumer (or pump) is done with
  std::uint32_t next = 0;             // sequence of the next message
  std::uint32_t credits = 0;          // slots that are known to be free
  std::uint32_t slot_count = 0;       // K, a power of two
  std::uint32_t slot_bytes = 0;       // largest message
  std::uint16_t lane = 0;
  bool by_reference = false;  // the reader reaches any memory of this process: no staging
  bool single_copy = false;   // ... through the kernel: kPeerAddress
  bool same_process = false;  // ... in a device's memory: kDeviceAddress
  // Of the reader: a bit for each region of a device's memory that it has mapped; null: it maps none.
  const std::uint64_t* mapped = nullptr;
  std::uint64_t readable = 0;        // ... as an operation of blocks has found it
  std::byte* staging = nullptr;      // slot_count x slot_bytes; null until the first use
  std::uint32_t staging_region = 0;  // how a header names `staging`
  std::uint64_t staging_offset = 0;
  FillHistory fills[3];  // of copies into `staging`: of messages below 32 KiB, below 128 KiB, and above
};

// The consuming end.
struct RecvFifo {
  const SlotHeader* slots = nullptr;
  Counter* consumed = nullptr;
  const RegionView* regions = nullptr;     // the producer's region table, kMaximumRegions entries
  Landing* landing = nullptr;              // null: no pump
  const Counter* owner_aborted = nullptr;  // the producer's; null where slots are never references
  const ProcessMemory* process = nullptr;  // the producer's; null: its memory cannot be read
  PulledMessage* pulled = nullptr;         // of blocks of a device: what is read for them, as all of kPeerAddress is
  std::uint64_t device = 0;                // ... the one whose memory they reach
  DeviceAllocation reached = {};           // ... of another device's the allocation that they were let in to last
  std::uint32_t asked = 0;                 // ... the last message that they asked for, or the one before `next`
  bool pulls_local = false;                // ... whether what is at kLocalAddress is read for them, too
  bool same_process = false;               // only this process writes the slots: what they call its addresses is so
  std::uint32_t next = 0;
  std::uint32_t slot_count = 0;
  std::uint16_t lane = 0;
};

}  // namespace wreath
