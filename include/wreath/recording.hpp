// Reads back and compares the calls that flight recorders hold, which show what a communicator was doing.
//
// Every rank keeps its last kRecordedCalls calls in memory that other processes may read, and writes them to
// wreath-RANK.json when the communicator fails. `wreath why` is built on this header.
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
  // The caller has made the call, which may wait for other ranks.
  Entered,
  Running,  // data moves
  Done,
  Failed,
};

// Returns "entered", "running", "done" or "failed".
std::string_view name(CallState state) noexcept;

// Holds a name of at most 20 characters in place; longer names are cut. Text converts to it.
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

// Describes one call of one rank.
struct CallRecord {
  // Numbers the communicator's calls, or this rank's exchanges, from 1; 0 where there is none.
  std::uint64_t number = 0;
  Collective collective = Collective::AllReduce;
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  CallState state = CallState::Entered;
  // Says that the call is a v-form.
  bool varying = false;
  Rank root = 0;
  // Counts the elements of the vector or of a block; in a v-form, those of all blocks (that the rank sends).
  std::uint64_t count = 0;
  // Holds the algorithm's name in the registry; empty while it is not known.
  ShortName algorithm;
  // Holds the time by the host's monotonic clock; the recorder sets it.
  std::int64_t entered_ns = 0;
  std::int64_t done_ns = 0;  // 0: not over
};

// Returns text such as "all_reduce #17 float32 x 1048576".
std::string describe(const CallRecord& call);
// Returns whether two ranks' records are of one call: the fields that all ranks must give alike are equal.
bool same_call(const CallRecord& a, const CallRecord& b) noexcept;

// Describes one message among one rank's sends and receives.
struct MessageRecord {
  // Holds the number of the record in Recording::exchanges that the message is part of.
  std::uint64_t exchange = 0;
  bool sent = false;  // else received
  Rank peer = 0;
  DataType dtype = DataType::Uint8;
  std::uint64_t count = 0;  // elements
  // Numbers the messages from its sender to its receiver, from 1; 0 where there is none.
  std::uint64_t number = 0;
};

// Returns text such as "recv #3 from rank 1 float32 x 100".
std::string describe(const MessageRecord& message);

// Holds the calls of one rank, oldest first, and says which rank that is.
struct Recording {
  // Names the file, or "pid 4711", that the recording was read from.
  std::string source;
  Rank rank = 0;
  int ranks = 1;
  std::int32_t pid = 0;
  std::string host;
  // Is equal on all ranks of one communicator.
  std::uint64_t communicator = 0;
  // Turns a time of this recording (*_ns), when added to it, into nanoseconds since 1970.
  std::int64_t clock_offset_ns = 0;
  // Holds the time at which the recording was read or written, by the host's monotonic clock.
  std::int64_t taken_ns = 0;
  // Holds at most kRecordedCalls calls; Entered and Running ones are unfinished.
  std::vector<CallRecord> calls;
  // Holds as many of the rank's sends and receives, which no other rank counts. Of a single one, root is the peer,
  // and count and dtype are the message's. Of a group of them, count is bytes.
  std::vector<CallRecord> exchanges;
  // Holds the messages of `exchanges`, at most the last kRecordedMessages, and none to the own rank.
  std::vector<MessageRecord> messages;
  // Holds the communicator's first error; empty while it is alive.
  std::string error;
  std::string error_kind;  // name(ErrorCode)
  // Names the rank that the error names; -1 where there is none.
  Rank failed_rank = -1;

  // Returns the last call, or nullptr where there is none.
  const CallRecord* last() const noexcept { return calls.empty() ? nullptr : &calls.back(); }
  const CallRecord* find(std::uint64_t number) const noexcept;
};

// Reads the text of a wreath-RANK.json. Any text is safe to give; InvalidArgument says what is wrong.
Result<Recording> parse_recording(std::string_view text, std::string_view source);
// Reads a wreath-RANK.json of up to 1 MiB.
Result<Recording> read_recording(const std::string& path);
// Reads the recorders of a living process of this host (one per communicator and rank). Fails with Unavailable when
// the process is gone, has none, or may not be read by this user.
Result<std::vector<Recording>> read_process(std::int32_t pid);

// Names what the recordings of one communicator show together.
enum class Finding : std::uint8_t { Healthy, Behind, Mismatch, PeerLost, Failed, Incomplete };
std::string_view name(Finding finding) noexcept;

struct Diagnosis {
  std::uint64_t communicator = 0;
  Finding finding = Finding::Healthy;
  // Lists the ranks that are behind, differ or are lost.
  std::vector<Rank> culprits;
  // Numbers the call that the finding is about; 0 where there is none.
  std::uint64_t number = 0;
  // Tells people which ranks, in which call, and what differs.
  std::vector<std::string> sentences;
};

// Returns one diagnosis per communicator, in the order in which communicators appear.
std::vector<Diagnosis> diagnose(const std::vector<Recording>& recordings);

}  // namespace wreath
