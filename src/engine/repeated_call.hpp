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
  bool is(const Call& call) const noexcept {
    return has_arguments_of(call) && call.stream == nullptr && buffers_fit(call);
  }
  // Says whether the calls are alike but for their buffers and stream.
  bool has_arguments_of(const Call& call) const noexcept {
    return compared(words_of(call, call.count)) == compared(words_);
  }
  // Returns what is compared of a call's words. A planted fault leaves the data type out.
  static CallWords compared(CallWords words) noexcept {
    if (planted_fault(16)) words.kind &= ~std::uint64_t{0xff00};
    return words;
  }
  const CallWords& words() const { return words_; }
  const SmallPart& part() const { return part_; }
  const Choice& choice() const { return choice_; }
  // Returns the record, which has another call's number.
  const CallRecord& record() const { return record_; }

 private:
  bool buffers_fit(const Call& call) const noexcept {
    const auto input = reinterpret_cast<std::uintptr_t>(call.input);
    const auto output = reinterpret_cast<std::uintptr_t>(call.output);
    if (!both_) return (!reads_ || input != 0) && (!writes_ || output != 0);
    const bool apart = input < output ? output - input >= input_bytes_ : input - output >= output_bytes_;
    return input != 0 && output != 0 && (apart || (same_in_place_ && input == output));
  }

  CallWords words_;
  bool reads_ = false;
  bool writes_ = false;
  bool both_ = false;
  // The call is in place where input == output.
  bool same_in_place_ = false;
  std::uint64_t input_bytes_ = 0;
  std::uint64_t output_bytes_ = 0;
  SmallPart part_;
  Choice choice_;
  CallRecord record_;
};

// RepeatedCalls remembers small calls of a communicator: all of them while there are few kinds, else those that were
// made last. It takes memory for the kinds that came.
class RepeatedCalls {
 public:
  // Returns the call that `call` repeats; null where there is none.
  const RepeatedCall* find(const Call& call) noexcept {
    return last_ != nullptr && last_->is(call) ? last_ : find_in_set(call);
  }
  // Remembers a checked call that the small path serves.
  void remember(const Call& call, Place place, const Choice& choice, const CallRecord& record);

 private:
  static constexpr unsigned kSetBits = 5;
  static constexpr std::size_t kWays = 4;
  // A call is in one of the ways of its set.
  using Set = std::array<std::unique_ptr<RepeatedCall>, kWays>;

  Set& set_of(const Call& call) noexcept;
  const RepeatedCall* find_in_set(const Call& call) noexcept;

  std::array<Set, std::size_t{1} << kSetBits> sets_;
  const RepeatedCall* last_ = nullptr;
};

}  // namespace wreath
