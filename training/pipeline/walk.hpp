// ScheduleWalk is one run of a schedule's dependency graph, with its messages and with a clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "training/pipeline/verify.hpp"

namespace wreath::training {

// The messages that an action takes and gives, by the rules of verify.hpp.
struct Messages {
  bool takes = false;
  bool gives = false;
  bool gradient = false;  // and not an activation
  int from = 0;           // rank
  int to = 0;
  int taken_chunk = 0;  // of the rank that sends
};
Messages messages_of(const PipelineSchedule& schedule, int rank, const Action& action) noexcept;

// Walks a schedule whose ranks were checked each by itself (verify.cpp).
class ScheduleWalk {
 public:
  ScheduleWalk(const PipelineSchedule& schedule, const ScheduleCosts& costs);
  // Runs all ranks as far as possible. The error is InvalidArgument for a message taken out of order, or for ranks that
  // wait for each other.
  Status run();
  const std::vector<Timeline>& timelines() const noexcept { return timelines_; }

 private:
  struct Message {
    int chunk;
    int micro_batch;
    std::int64_t arrival;
  };
  struct Queue {
    std::deque<Message> messages;
    std::deque<std::int64_t> taken;  // the times of the last kQueuedMessages
  };
  enum class Step { Advanced, Waits };

  Result<Step> step(int rank);
  Result<bool> find(const Messages& messages, const Action& action, int rank, std::size_t& position);
  Queue& queue(const Messages& messages, int rank, bool incoming);
  std::int64_t cost_of(ActionKind kind) const noexcept;
  Error stuck() const;
  std::string at(int rank) const;

  const PipelineSchedule& schedule_;
  ScheduleCosts costs_;
  std::vector<Queue> activations_;  // [r]: rank r to the next one
  std::vector<Queue> gradients_;    // [r]: back to rank r
  std::vector<Timeline> timelines_;
};

// Returns "pipeline schedule NAME: rank 1, action 3 (F2): ".
std::string action_text(const PipelineSchedule& schedule, int rank, std::size_t position);

}  // namespace wreath::training
