// Defines the flight recorder's memory, as its writer and readers of other processes see it.
//
// Every word is read and written by atomic operations of its own. A record's version is odd while the
// record changes. Readers of another process trust nothing here: see view().
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "src/base/cpu.hpp"
#include "wreath/recording.hpp"

namespace wreath {

inline constexpr std::uint64_t kRecorderMagic = 0x52464854'41455257;  // "WREATHFR"
inline constexpr std::uint32_t kRecorderVersion = 4;
inline constexpr char kRecorderFileName[] = "wreath-recorder";

// Stands in the collective's byte.
inline constexpr std::uint8_t kRecordVarying = 0x80;

// Holds a call in one cache line. The tail is collective, dtype, op, state, then the algorithm's name.
struct alignas(64) RecordWords {
  std::uint32_t version;
  std::int32_t root;
  std::uint64_t number;
  std::uint64_t count;
  std::uint64_t entered;  // cycle_count()
  std::uint64_t done;     // 0: not over
  std::uint64_t tail[3];
};
static_assert(sizeof(RecordWords) == 64);

struct RecorderHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t calls;  // kRecordedCalls
  std::int32_t rank;
  std::int32_t ranks;
  std::int32_t pid;
  std::uint32_t reserved;
  std::uint64_t communicator;
  // Is real time minus monotonic time.
  std::int64_t clock_offset_ns;
  // Is one moment on both clocks, together with `start_ns`.
  std::uint64_t start_ticks;
  std::int64_t start_ns;
  char host[256];
};

// Holds the last calls of one numbering.
struct RecordRing {
  // Is the number of the last call entered.
  alignas(64) std::uint64_t last;
  alignas(64) RecordWords records[kRecordedCalls];
};

// Holds a message in one cache line, as RecordWords holds a call.
struct alignas(64) MessageWords {
  std::uint32_t version;
  std::int32_t peer;
  // Counts all messages of this rank, from 1.
  std::uint64_t place;
  std::uint64_t exchange;
  std::uint64_t number;
  std::uint64_t count;
  // Holds the dtype, and kMessageSent.
  std::uint64_t kind;
};
static_assert(sizeof(MessageWords) == 64);
inline constexpr std::uint64_t kMessageSent = 0x100;

struct MessageRing {
  // Is the place of the last message.
  alignas(64) std::uint64_t last;
  alignas(64) MessageWords messages[kRecordedMessages];
};

struct RecorderMemory {
  RecorderHeader header;  // never changes
  RecordRing calls;
  RecordRing exchanges;
  MessageRing messages;
};

// Returns a consistent copy of record `index`. Returns nullopt when the record is empty, holds values out of range, or
// does not hold still for a while.
std::optional<CallRecord> read_record(const RecordRing& ring, std::size_t index, const TickScale& scale);

// Returns the line between the recorder's start and now.
TickScale scale_of(const RecorderHeader& header);

// Returns the header's facts and all records, in order of their numbers; or why it is not a recorder's memory.
Result<Recording> view(const RecorderMemory& memory, std::string source);

}  // namespace wreath
