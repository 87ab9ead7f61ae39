// What a communicator was doing: the calls its flight recorder holds, read back and compared.
//
// Every rank keeps its last kRecordedCalls calls in memory that other processes may read, and writes
// them to wreath-RANK.json when the communicator fails. `wreath why` is built on this header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wreath/result.hpp"
#include "wreath/types.hpp"

namespace wreath {

inline constexpr std::size_t kRecordedCalls = 256;  // per communicator
inline constexpr std::size_t kRecordedMessages = 1024;

enum class CallState : std::uint8_t {
  Entered,  // the caller is in it; it may wait for other ranks
  Running,  // data moves
  Done,
  Failed,
};

// "entered", "running", "done", "failed".
std::string_view name(CallState state) noexcept;

// A name of at most 20 characters held in place; longer ones are cut. Converts from text.
class ShortName {
 public:
  static constexpr std::size_t kBytes = 20;
  constexpr ShortName() = default;
  constexpr ShortName(std::string_view text) noexcept {  // NOLINT(google-explicit-constructor)
    const std::size_t size = text.size() < kBytes ? text.size() : kBytes;
    for (std::size_t i = 0; i < size; ++i) text_[i] = text[i];
  }
  constexpr ShortName(const char* text) noexcept  // NOLINT(google-explicit-constructor)
      : ShortName(std::string_view(text)) {}
  constexpr std::string_view view() const noexcept {
    std::size_t size = 0;
    while (size < kBytes && text_[size] != 0) ++size;
    return {text_, size};
  }

 private:
  char text_[kBytes] = {};
};

// One call of one rank.
struct CallRecord {
  std::uint64_t number = 0;  // of the communicator's calls, or of this rank's exchanges, from 1; 0: none
  Collective collective = Collective::AllReduce;
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  CallState state = CallState::Entered;
  bool varying = false;  // a v-form
  Rank root = 0;
  std::uint64_t count = 0;      // elements of the vector or of a block; of a v-form, of all blocks (that it sends)
  ShortName algorithm;          // the registry's name; empty: not known yet
  std::int64_t entered_ns = 0;  // the host's monotonic clock; given by the recorder
  std::int64_t done_ns = 0;     // 0: not over
};

// "all_reduce #17 float32 x 1048576".
std::string describe(const CallRecord& call);
// Whether two ranks' records are of one call: what all ranks must give alike is equal.
bool same_call(const CallRecord& a, const CallRecord& b) noexcept;

// One message of one rank's sends and receives.
struct MessageRecord {
  std::uint64_t exchange = 0;  // the number of the record in Recording::exchanges that it is part of
  bool sent = false;           // else received
  Rank peer = 0;
  DataType dtype = DataType::Uint8;
  std::uint64_t count = 0;   // elements
  std::uint64_t number = 0;  // of the messages from its sender to its receiver, from 1; 0: none
};

// "recv #3 from rank 1 float32 x 100".
std::string describe(const MessageRecord& message);

// The calls of one rank, oldest first, and who it is.
struct Recording {
  std::string source;  // the file or "pid 4711" it was read from
  Rank rank = 0;
  int ranks = 1;
  std::int32_t pid = 0;
  std::string host;
  std::uint64_t communicator = 0;    // equal on all ranks of one communicator
  std::int64_t clock_offset_ns = 0;  // add to *_ns for nanoseconds since 1970
  std::int64_t taken_ns = 0;         // when it was read or written, the host's monotonic clock
  std::vector<CallRecord> calls;     // at most kRecordedCalls; Entered and Running ones are unfinished
  // As many of its sends and receives, which no other rank counts. A single one: root is the peer, count and dtype the
  // message's; a group of them: count is bytes.
  std::vector<CallRecord> exchanges;
  // The messages of exchanges, at most the last kRecordedMessages; none to the own rank.
  std::vector<MessageRecord> messages;
  std::string error;       // the communicator's first error; empty: alive
  std::string error_kind;  // name(ErrorCode)
  Rank failed_rank = -1;   // the rank that error names; -1: none

  // The last call, or nullptr.
  const CallRecord* last() const noexcept { return calls.empty() ? nullptr : &calls.back(); }
  const CallRecord* find(std::uint64_t number) const noexcept;
};

// Reads the text of a wreath-RANK.json. Any text is safe to give; InvalidArgument says what is wrong.
Result<Recording> parse_recording(std::string_view text, std::string_view source);
// Reads such a file, up to 1 MiB.
Result<Recording> read_recording(const std::string& path);
// Reads the recorders of a living process of this host (one per communicator and rank). Unavailable
// when the process is gone, is not ours to read or has none.
Result<std::vector<Recording>> read_process(std::int32_t pid);

// What the recordings of one communicator say together.
enum class Finding : std::uint8_t { Healthy, Behind, Mismatch, PeerLost, Failed, Incomplete };
std::string_view name(Finding finding) noexcept;

struct Diagnosis {
  std::uint64_t communicator = 0;
  Finding finding = Finding::Healthy;
  std::vector<Rank> culprits;          // the ranks behind, differing or lost
  std::uint64_t number = 0;            // the call it is about; 0: none
  std::vector<std::string> sentences;  // for people: who, in which call, what differs
};

// One diagnosis per communicator, in the order in which they appear.
std::vector<Diagnosis> diagnose(const std::vector<Recording>& recordings);

}  // namespace wreath
