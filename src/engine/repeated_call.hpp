// RepeatedCall serves small calls that repeat an earlier one. The checks and the choice of that call hold for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/base/planted_fault.hpp"
#include "src/engine/call_shape.hpp"
#include "src/executor/small.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/call.hpp"
#include "wreath/recording.hpp"

namespace wreath {

class RepeatedCall {
 public:
  // Remembers a checked call that the small path serves.
  void remember(const Call& call, Place place, const Choice& choice, const CallRecord& record);

  // Says whether `call` repeats that call with any buffers that are plainly right. Where it returns false, the caller
  // checks the call in full.
  bool is(const Call& call) const noexcept { return is(call, compared(words_of(call, call.count))); }
  // Does the same, with what is compared of the call's words.
  bool is(const Call& call, const CallWords& words) const noexcept {
    return words == compared(words_) && call.stream == nullptr && buffers_fit(call);
  }
  // Returns what is compared of a call's words. A planted fault leaves the data type out.
  static CallWords compared(const CallWords& words) noexcept {
    return planted_fault(16) ? CallWords(words.kind & ~std::uint64_t{0xff00}, words.elements) : words;
  }
  const CallWords& words() const { return words_; }
  const SmallPart& part() const { return part_; }
  const Choice& choice() const { return choice_; }
  // Returns the record, which has another call's number.
  const CallRecord& record() const { return record_; }

 private:
  // Decides without branches, since no processor foresees the buffers of calls that take turns.
  bool buffers_fit(const Call& call) const noexcept {
    const auto input = reinterpret_cast<std::uintptr_t>(call.input);
    const auto output = reinterpret_cast<std::uintptr_t>(call.output);
    const bool are_there = ((input != 0) | !reads_) & ((output != 0) | !writes_);
    // The distance from the later buffer to the earlier one wraps, and is more than memory holds.
    const bool apart = (output - input >= input_bytes_) & (input - output >= output_bytes_);
    return are_there & (apart | (has_in_place_ & (output - input == in_place_distance_)));
  }

  CallWords words_;
  bool reads_ = false;
  bool writes_ = false;
  bool has_in_place_ = false;
  // From the input to the output of a call in place, where both hold the rank's own data at one address; wraps.
  std::uint64_t in_place_distance_ = 0;
  // Both are 0 where the rank does not use both buffers.
  std::uint64_t input_bytes_ = 0;
  std::uint64_t output_bytes_ = 0;
  SmallPart part_;
  Choice choice_;
  CallRecord record_;
};

// RepeatedCalls remembers small calls of a communicator: all of them while there are few kinds, else those that were
// made last. It takes memory for the kinds that came. A search has no branch that depends on the kind, since no
// processor foresees which of the calls that take turns comes.
class RepeatedCalls {
 public:
  // Returns the call that `call` repeats; null where there is none.
  const RepeatedCall* find(const Call& call) const noexcept {
    const CallWords words = RepeatedCall::compared(words_of(call, call.count));
    const Set& set = sets_[set_of(words.hash)];
    std::size_t way = 0;
    for (std::size_t i = 1; i < kWays; ++i) way |= i * static_cast<std::size_t>(set.hashes[i] == words.hash);
    const RepeatedCall* const found = set.calls[way].get();
    return found != nullptr && found->is(call, words) ? found : nullptr;
  }
  // Remembers a checked call that the small path serves.
  void remember(const Call& call, Place place, const Choice& choice, const CallRecord& record);

 private:
  static constexpr unsigned kSetBits = 5;
  static constexpr std::size_t kWays = 4;
  // A call is in one of the ways of its set.
  struct Set {
    std::array<std::uint64_t, kWays> hashes{};
    std::array<std::unique_ptr<RepeatedCall>, kWays> calls;
  };

  static std::size_t set_of(std::uint64_t hash) noexcept { return hash >> (64 - kSetBits); }

  std::array<Set, std::size_t{1} << kSetBits> sets_;
};

}  // namespace wreath
