// The instant at which all ranks begin a call that is timed alone.
#pragma once

#include <chrono>
#include <optional>

#include "perf/base/member.hpp"

namespace wreath::perf {

// Says whether all ranks are on one host, on a core each. All ranks get the same answer. It is collective.
Result<bool> have_one_clock(Member& member);

// A barrier lets ranks go one after the other, and which one is first depends on the library. Where the first one sends
// and the others receive, part of a message's way then lies outside the clocks. So ranks that share a clock agree on an
// instant, and all wait for it. A rank whose part of a call is over first stays quiet for as long again before it meets
// the others, so that its messages do not disturb those that are still in the call.
class CommonStart {
 public:
  using Clock = std::chrono::steady_clock;
  // The member must live longer.
  explicit CommonStart(Member& member) : member_(member) {}
  // Returns at one instant on all ranks, and which, where they are on one host and each has a core of its own.
  // Elsewhere it returns once all have entered, and when that was here. It is collective.
  Result<Clock::time_point> wait();

 private:
  Member& member_;
  std::optional<bool> one_clock_;             // known after the first wait
  double meeting_ns_ = 0;                     // what the last meeting took
  std::optional<Clock::time_point> started_;  // the last instant of all
};

}  // namespace wreath::perf
