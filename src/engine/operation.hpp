// An Operation is one call in flight on this rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/progress.hpp"
#include "src/base/region.hpp"
#include "src/engine/exchange.hpp"
#include "src/membership/question.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/call.hpp"
#include "wreath/result.hpp"

namespace wreath {

class Engine;

// A Completion says when an operation that no driver ends is over. Any thread may use it.
class Completion {
 public:
  virtual ~Completion() = default;
  virtual bool over() const = 0;
  // Waits for the end. Returns NotReady when `timeout_ms` (>= 0) ends first.
  virtual Status wait(std::int64_t timeout_ms) = 0;
};

// Returns the call of sends and receives in a stream; null stands for none.
inline Call exchange_in(Stream* stream) {
  Call exchange;
  exchange.collective = Collective::Exchange;
  exchange.stream = stream;
  return exchange;
}

class Operation {
 public:
  Operation() = default;
  explicit Operation(std::shared_ptr<Engine> owner) : engine(std::move(owner)) {}

  // Says whether the operation is over. finish() sets this once at the end, after the result.
  bool over() const { return completion != nullptr ? completion->over() : over_.load(std::memory_order_acquire); }
  void finish(std::optional<Error> error) {
    error_ = std::move(error);
    memory_in_use_.clear();
    over_.store(true, std::memory_order_release);
  }
  // Keeps the call's memory of wreath::allocate until the call is over, even where the program frees it.
  void keep_memory();
  // Returns the result. The caller must have seen over().
  Status status() const { return error_ ? Status(*error_) : Status(); }
  // Begins anew with another call, and copies its counts and displacements.
  void reset(const Call& next) {
    call = next;
    if (next.varying()) keep_blocks();
    messages.sends.clear();
    messages.receives.clear();
    choice = {};
    number = 0;
    moved = true;
    late = warned = false;
    entered_ns = 0;
    error_.reset();
    over_.store(false, std::memory_order_relaxed);
  }

  // Says whether the operation is the sends and receives of `messages`. Such an operation takes its turn among the
  // calls but has no number. Peers match its messages by the messages' own numbers.
  bool exchanges() const { return call.collective == Collective::Exchange; }

  std::shared_ptr<Engine> engine;                      // a Work keeps it as long as its handle lives
  const std::uint32_t generation = fork_generation();  // another one: this is the child of a fork
  Call call;                                           // displacements are there wherever counts are
  ExchangeMessages messages;
  // The pointer is null where a driver ends the operation.
  std::shared_ptr<Completion> completion;
  std::uint64_t number = 0;  // 0: it has none
  std::uint64_t record = 0;  // the flight recorder's key
  std::uint32_t signature = 0;
  std::atomic<bool> ready{true};  // false: it may not begin yet
  bool moved = true;              // since the watch looked
  bool late = false;              // a peer is known not to have entered
  bool warned = false;            // and the program was told
  Choice choice;
  // The time is 0 until the watch looks for the first time.
  std::int64_t entered_ns = 0;
  std::int64_t moved_ns = 0;

 private:
  void keep_blocks();
  void keep_memory(const void* data);

  std::vector<RegionUse> memory_in_use_;
  // The counts and displacements of the input come first, then those of the output.
  std::vector<std::size_t> blocks_;
  std::atomic<bool> over_{true};
  std::optional<Error> error_;
};

// Returns the name that messages use, for example "all_reduce #17".
std::string text_of(const Operation& operation);
// Returns the number of the call, or of the first message of the question's peer and subject. Returns 0 where the
// operation has none.
std::uint64_t first_number(const Operation& operation, const Question& question);

}  // namespace wreath
