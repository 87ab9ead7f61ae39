// RepeatedCall serves small calls that repeat the last one of their collective. The checks and the choice of that call
// hold for them.
#pragma once

#include <cstdint>

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
    return (call.dtype == call_.dtype || planted_fault(16)) && call.count == call_.count && call.root == call_.root &&
           call.reduction.op == call_.reduction.op && call.stream == nullptr && call.collective == call_.collective &&
           known_ && buffers_fit(call);
  }
  // Returns the small call without buffers and signature.
  const SmallCall& small() const { return small_; }
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

  bool known_ = false;
  bool reads_ = false;
  bool writes_ = false;
  bool both_ = false;
  // The call is in place where input == output.
  bool same_in_place_ = false;
  std::uint64_t input_bytes_ = 0;
  std::uint64_t output_bytes_ = 0;
  Call call_{};
  SmallCall small_{};
  Choice choice_;
  CallRecord record_;
};

}  // namespace wreath
