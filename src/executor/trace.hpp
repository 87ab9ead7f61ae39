// Keeps what lanes did, step by step, while a trace is asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/schedule/step.hpp"

namespace wreath {

// One advance of a lane: a tile of a step, or one half of a fused step.
struct StepEvent {
  std::int64_t begin_ns;  // the host's monotonic clock
  std::int64_t end_ns;
  std::uint64_t call;  // set by StepTrace::add()
  std::uint32_t step;  // within its lane
  std::uint32_t tile;
  std::uint16_t lane;  // number that its messages carry
  StepOp op;
};

// One thread uses it at a time. It keeps the first kMaximumEvents events.
class StepTrace {
 public:
  void begin_call(std::uint64_t number) { call_ = number; }
  void add(StepEvent event) {
    event.call = call_;
    if (events_.size() < kMaximumEvents) {
      events_.push_back(event);
    } else {
      ++dropped_;
    }
  }
  const std::vector<StepEvent>& events() const { return events_; }
  std::size_t dropped() const { return dropped_; }

 private:
  static constexpr std::size_t kMaximumEvents = std::size_t{1} << 20;  // 48 MiB
  std::vector<StepEvent> events_;
  std::uint64_t call_ = 0;
  std::size_t dropped_ = 0;
};

}  // namespace wreath
