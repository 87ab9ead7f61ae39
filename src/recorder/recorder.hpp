// The flight recorder: the last calls of a communicator, always on, readable by other processes.
//
// A memfd named "wreath-recorder" holds a header and a ring of 64-byte records. One thread writes at
// a time (the communicator's caller, or who drives its lanes); any thread or process may read: each
// record has a version that is odd while it changes. Writing one takes a few nanoseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/fd.hpp"
#include "wreath/recording.hpp"
#include "wreath/result.hpp"

namespace wreath {

struct RecorderMemory;

inline constexpr std::uint64_t kExchangeKey = std::uint64_t{1} << 63;

class FlightRecorder {
 public:
  FlightRecorder() = default;  // records nothing
  FlightRecorder(FlightRecorder&& other) noexcept;
  FlightRecorder& operator=(FlightRecorder&& other) noexcept;
  ~FlightRecorder();

  // For rank `rank` of `ranks`; `communicator` is equal on all of them. System error when the
  // memory is refused.
  static Result<FlightRecorder> create(Rank rank, int ranks, std::uint64_t communicator);

  // Writers, one at a time. enter() starts a call in state Entered at the present time and returns its key for the
  // others: its number, which is call.number, or the one after the last call when that is 0; exchanges are numbered
  // apart and have kExchangeKey in it. The others do nothing for a call that is held no more.
  std::uint64_t enter(const CallRecord& call) noexcept { return enter(call, call.number); }
  // The same of a call with another number.
  std::uint64_t enter(const CallRecord& call, std::uint64_t number) noexcept;
  // A message of the exchange `key`, to or from another rank.
  void message(std::uint64_t key, MessageRecord message) noexcept;
  void running(std::uint64_t key, ShortName algorithm = {}) noexcept;
  void done(std::uint64_t key) noexcept;
  void failed(std::uint64_t key) noexcept;

  // Readers, any thread at any time.
  std::optional<CallRecord> find(std::uint64_t key) const noexcept;
  // The last call entered that is no exchange; its number is 0 when there was none.
  CallRecord last() const noexcept { return last_of(0); }
  // The last of all.
  CallRecord last_of_any() const noexcept;
  // All that the ring holds.
  Recording snapshot() const;

  // Writes all that the ring holds, unfinished calls as failed, to wreath-RANK.json in `directory` (empty:
  // WREATH_RECORDER_DIR, else the current one) by atomic rename, mode 0644, and returns its path. Where another
  // communicator of this process has written that file, the name is wreath-RANK-COMMUNICATOR.json. Thread-safe.
  Result<std::string> dump(const Error& error, const std::string& directory = {}) const;

  // The memfd, for tests; -1 when it records nothing.
  int descriptor() const noexcept { return file_.get(); }

 private:
  void finish(std::uint64_t key, CallState state) noexcept;
  CallRecord last_of(std::uint64_t key_bit) const noexcept;

  Fd file_;
  RecorderMemory* memory_ = nullptr;
};

}  // namespace wreath
