// A FIFO of slots has one producer, one consumer, and K slots in memory that both ends can reach. The producer writes a
// slot's data, then its header, then the header's sequence (release). The consumer polls that sequence (acquire), reads
// the data and advances `consumed` (release). Each end stores only into its own memory. Sequences count messages and
// wrap at 2^32. There may be more headers than memory for staged data: messages whose data lies elsewhere need a header
// alone. Executors and the pumps of transports read these plain structs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wreath/fill_history.hpp"
#include "wreath/process_memory.hpp"

namespace wreath {

// A header is one cache line. It names a message's data and the message's call, or holds data that is tiny.
struct alignas(64) SlotHeader {
  std::uint32_t sequence;   // written last: the slot holds that message then
  std::uint16_t epoch;      // the communicator's; slots of other epochs are dropped
  std::uint16_t lane;       // the producer's lane
  std::uint32_t signature;  // hash of the call; ranks disagree where it differs
  std::uint32_t bytes;      // of data
  std::uint32_t flags;      // SlotFlag bits
  std::uint32_t region;     // index in the producer's region table, or an address below
  std::uint64_t offset;     // in the region; or the address itself
  std::byte data[32];       // the data itself, with kSlotInline
};
static_assert(sizeof(SlotHeader) == 64);

// The data is user memory, not a copy: the reader checks the owner's `aborted` counter afterwards.
inline constexpr std::uint32_t kSlotReference = 1;
inline constexpr std::uint32_t kSlotInline = 2;  // the data is in the header
// For a pump: the receiver may name the place where it wants this reference (RecvFifo::landings).
inline constexpr std::uint32_t kSlotLands = 4;
// The data of the next messages of this lane lies behind this reference and is ready, too. `data` has the number
// of these bytes (rest_of()).
inline constexpr std::uint32_t kSlotRest = 8;
// The data is at an address of the consumer's process: the producer is in it, too, or a pump put the data there. It is
// valid only under RecvFifo::same_process. It is not 0, which zeroed headers have.
inline constexpr std::uint32_t kLocalAddress = 0xFFFFFFFD;
// The data is at an address of the producer's process, which the consumer reads through the kernel (RecvFifo::process).
inline constexpr std::uint32_t kPeerAddress = 0xFFFFFFFF;
// The data is in the ping-pong slot whose number is the header's `offset`.
inline constexpr std::uint32_t kPingPong = 0xFFFFFFFC;

// Memory of a peer as this process sees it. `base` is null until the memory is mapped.
struct RegionView {
  const std::byte* base = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t device = 0;  // the device here that reaches it; 0: the host
};
inline constexpr std::uint32_t kMaximumRegions = 64;  // in a peer's table; index 0 is not used

// A pump may put the data of message `sequence` here instead of in a slot: in the receiving step's own target. The pump
// that used it makes the slot name the target's address.
struct Landing {
  std::byte* target = nullptr;  // null: nothing posted
  std::uint32_t sequence = 0;
  std::uint32_t bytes = 0;
};

// A counter or flag alone in its cache line.
struct alignas(64) Counter {
  std::uint32_t value = 0;
};

// Messages use so many bytes of staging memory in turn, but where SendFifo::ring_bytes says more.
inline constexpr std::size_t kLeastRingBytes = std::size_t{256} << 10;
// The stores of a message of so many bytes hide in the core's store buffer, wherever their lines are.
inline constexpr std::size_t kStoreBufferBytes = 2048;
// Messages above that and up to this size use SendFifo::ring_bytes of slots in turn. Calls of megabytes cut their data
// into larger messages, and slots in turn would push that data out of the caches.
inline constexpr std::size_t kMostRingMessageBytes = std::size_t{128} << 10;

// Ping-pong slots serve all lanes of two ranks, in both directions. A rank may fill one that it holds. The peer that
// has read the message holds the slot from then on. So a rank fills memory that it has read last. Its core owns those
// lines, and no other core has them. A message that is larger than a slot takes two, which follow each other in memory:
// 2i and 2i + 1.
struct PingPongSlots {
  static constexpr std::uint32_t kCount = 8;
  static constexpr std::size_t kBytes = std::size_t{64} << 10;  // of one slot
  static constexpr std::size_t kMostBytes = 2 * kBytes;         // of a message

  std::byte* data[kCount] = {};    // by number; null where the ranks have none
  std::uint8_t held[kCount] = {};  // the numbers of those that this rank holds: a queue from `first` on
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool fills = false;      // this rank fills them; else it holds none
  FillHistory pages = {};  // as SendFifo::pages
};

// The producing end. Only the rank that owns it touches it.
struct SendFifo {
  SlotHeader* slots = nullptr;        // slot_count headers; the consumer (or pump) reads them
  const Counter* consumed = nullptr;  // messages that the consumer (or pump) has read
  std::uint32_t next = 0;             // sequence of the next message
  std::uint32_t credits = 0;          // headers that are known to be free
  std::uint32_t slot_count = 0;       // K headers, a power of two
  std::uint32_t staging_count = 0;    // places in `staging`, a power of two up to slot_count
  std::uint32_t slot_bytes = 0;       // largest message
  std::uint16_t lane = 0;
  bool by_reference = false;         // no staging: the reader reaches this process's memory
  bool single_copy = false;          // the reader reads it through the kernel: kPeerAddress
  std::byte* staging = nullptr;      // staging_count x slot_bytes; null until the first use
  std::uint32_t staging_region = 0;  // a header's name of `staging`
  std::uint64_t staging_offset = 0;
  // Messages of a middle size use so many bytes of `staging` in turn, as long as plain stores fill them.
  std::size_t ring_bytes = kLeastRingBytes;
  FillHistory past_caches[3];          // plain stores or past the caches: below 32 KiB, 128 KiB, and above
  FillHistory pages;                   // plain stores in the order of addresses or of pages side by side
  PingPongSlots* ping_pong = nullptr;  // null: there are none
};

// The consuming end.
struct RecvFifo {
  const SlotHeader* slots = nullptr;
  Counter* consumed = nullptr;
  const RegionView* regions = nullptr;  // the producer's region table, kMaximumRegions entries
  Landing* landing = nullptr;           // null: no pump
  // There are so many, by sequence. The one of 1 is posted by a step while it waits. More, a power of two, are posted
  // ahead: a step posts those of the next messages of its lane, so that the pump can tell the sender.
  std::uint32_t landings = 1;
  std::uint32_t posted = 0;                // ahead: the sequence of the next message whose place will be posted
  const Counter* owner_aborted = nullptr;  // the producer's; null where slots are never references
  const ProcessMemory* process = nullptr;  // the producer's; null: its memory cannot be read
  bool same_process = false;               // only this process writes the slots
  std::uint32_t next = 0;
  std::uint32_t slot_count = 0;
  std::uint16_t lane = 0;
  PingPongSlots* ping_pong = nullptr;  // null: there are none
  // The message at hand is in so many ping-pong slots, from this number on.
  std::uint32_t ping_pong_slots = 0;
  std::uint32_t ping_pong_first = 0;
};

}  // namespace wreath
