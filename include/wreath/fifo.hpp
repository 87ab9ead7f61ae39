// A FIFO of slots between two ranks: one producer, one consumer, K slots, memory that both ends can reach. The producer
// writes a slot's data, then its header, then the header's sequence (release). The consumer polls that sequence
// (acquire), reads the data and advances `consumed` (release). Each end stores only into its own memory. Sequences
// count messages and wrap at 2^32. These are plain structs, which executors and a transport's pump read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wreath/fill_history.hpp"
#include "wreath/process_memory.hpp"

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
  std::uint64_t offset;     // into the region; with an address it is that
  std::byte data[32];       // of the message itself, with kSlotInline
};
static_assert(sizeof(SlotHeader) == 64);

// The data is user memory, not a copy: the reader checks the owner's `aborted` counter afterwards.
inline constexpr std::uint32_t kSlotReference = 1;
inline constexpr std::uint32_t kSlotInline = 2;  // the data is in the header
// The data is at an address of the consumer's own process (same process, or a pump put it there), where
// RecvFifo::same_process says that nobody else can have written so. It is not 0, which zeroed headers have.
inline constexpr std::uint32_t kLocalAddress = 0xFFFFFFFD;
// The data is at an address of the producer's process, which the consumer reads through the kernel (RecvFifo::process).
inline constexpr std::uint32_t kPeerAddress = 0xFFFFFFFF;

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

// A counter or flag alone in its cache line.
struct alignas(64) Counter {
  std::uint32_t value = 0;
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
  bool by_reference = false;         // the reader reaches any memory of this process: no staging
  bool single_copy = false;          // ... through the kernel: kPeerAddress
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
  bool same_process = false;               // only this process writes the slots: what is called its address is one
  std::uint32_t next = 0;
  std::uint32_t slot_count = 0;
  std::uint16_t lane = 0;
};

}  // namespace wreath
