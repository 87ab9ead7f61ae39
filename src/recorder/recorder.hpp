// Records the last calls of a communicator. The recorder is always on, and other processes can read it.
//
// A memfd named "wreath-recorder" holds a header and rings of 64-byte records. One thread writes at a time (the
// communicator's caller, or the thread that drives its lanes); any thread or process may read. Each record has a
// version that is odd while it changes. Writing one takes a few nanoseconds.
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
  // Makes a recorder that records nothing.
  FlightRecorder() = default;
  FlightRecorder(FlightRecorder&& other) noexcept;
  FlightRecorder& operator=(FlightRecorder&& other) noexcept;
  ~FlightRecorder();

  // Makes the recorder of rank `rank` of `ranks`; `communicator` is equal on all of them. Fails with System when the
  // memory is refused.
  static Result<FlightRecorder> create(Rank rank, int ranks, std::uint64_t communicator);

  // Starts a call in state Entered at the present time and returns its key for the other writers. The key is the call's
  // number: call.number, or the one after the last call when that is 0. Exchanges are numbered apart, and their keys
  // have kExchangeKey in them. Only one writer may run at a time. The other writers do nothing for a call that is held
  // no more.
  std::uint64_t enter(const CallRecord& call) noexcept { return enter(call, call.number); }
  // Does the same for a call with another number.
  std::uint64_t enter(const CallRecord& call, std::uint64_t number) noexcept;
  // Records a message of the exchange `key`, to or from another rank.
  void message(std::uint64_t key, const MessageRecord& message) noexcept;
  void running(std::uint64_t key, ShortName algorithm = {}) noexcept;
  void done(std::uint64_t key) noexcept;
  // Ends a call that took some microseconds at most. It reads no clock, which would take longer than all the rest: the
  // record's end is its beginning.
  void done_at_once(std::uint64_t key) noexcept;
  void failed(std::uint64_t key) noexcept;

  // Returns the call of a key. Any thread may call the readers at any time.
  std::optional<CallRecord> find(std::uint64_t key) const noexcept;
  // Returns the last call entered that is no exchange; its number is 0 when there was none.
  CallRecord last() const noexcept { return last_of(0); }
  // Returns the last call or exchange entered.
  CallRecord last_of_any() const noexcept;
  // Returns all that the rings hold.
  Recording snapshot() const;

  // Writes all that the rings hold to wreath-RANK.json in `directory`, with unfinished calls as failed. An empty
  // `directory` means WREATH_RECORDER_DIR, else the current one. The file appears by atomic rename, mode 0644; its path
  // is returned. Where another communicator of this process has written that file, the name is
  // wreath-RANK-COMMUNICATOR.json. Any thread may call this.
  Result<std::string> dump(const Error& error, const std::string& directory = {}) const;

  // Returns the memfd, for tests; -1 where there is none.
  int descriptor() const noexcept { return file_.get(); }

 private:
  void finish(std::uint64_t key, CallState state, std::uint64_t ticks) noexcept;
  CallRecord last_of(std::uint64_t key_bit) const noexcept;

  Fd file_;
  RecorderMemory* memory_ = nullptr;
};

}  // namespace wreath
