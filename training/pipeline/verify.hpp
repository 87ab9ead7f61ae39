// verify() proves that a pipeline schedule computes every micro-batch and cannot hang. simulate() computes its cost.
#pragma once

#include <cstdint>
#include <vector>

#include "training/pipeline/schedule.hpp"
#include "training/pipeline/timeline.hpp"

namespace wreath::training {

// The rules by which messages are sent, here and in Pipeline. A queue of activations goes from rank r to the next one,
// r
// + 1; the last rank's next is rank 0. A queue of gradients goes back. All chunks share them. A queue is first in,
// first out: the receiver's actions must take messages in the order in which the sender's actions make them.
//
// A send does not wait. An action starts once its queue holds fewer than kQueuedMessages that were not taken. With so
// many calls in flight a communicator makes the next one wait. Chunks of a pipeline of one rank exchange messages in
// memory, in any order.
//
// No action waits for one of several things, so every run reaches the same end. One run therefore decides for all.
inline constexpr std::size_t kQueuedMessages = 128;

// The highest numbers of micro-batches in flight on each rank, with all its chunks together.
struct ScheduleProof {
  // Counts from the forward to the end of the backward by weights, while activations are kept.
  std::vector<int> in_flight;
  // Counts from the forward to the end of the backward by input.
  std::vector<int> in_flight_inputs;
};

// Proves the schedule. Every micro-batch runs forward, then backward by input, then by weights, once on every stage. On
// each stage the weights' parts run in the order of micro-batches, so gradients have the same bits in every schedule.
// All ranks reach their end. Time and memory grow with the number of actions. The error is InvalidArgument, which names
// rank, action, and reason.
Result<ScheduleProof> verify(const PipelineSchedule& schedule);

// The times of one chunk and micro-batch, in any unit. A Backward takes both parts.
struct ScheduleCosts {
  std::int64_t forward = 1;
  std::int64_t backward_input = 1;
  std::int64_t backward_weights = 1;
  // The time from the end of the action to the arrival. Sends run beside the sender's work, any number at once.
  std::int64_t send = 0;
};

struct SimulatedPipeline {
  std::int64_t makespan = 0;
  std::vector<double> idle_shares;  // of each rank, of the makespan
  double idle_share = 0;            // their mean
  std::vector<Timeline> timelines;  // of each rank, from 0
};

// Runs the schedule with these costs. Returns verify()'s errors, and InvalidArgument where a cost is negative.
Result<SimulatedPipeline> simulate(const PipelineSchedule& schedule, const ScheduleCosts& costs);

}  // namespace wreath::training
