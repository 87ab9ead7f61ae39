// verify: proves that a pipeline schedule computes what it must and cannot hang. simulate: what it costs.
#pragma once

#include <cstdint>
#include <vector>

#include "training/pipeline/schedule.hpp"
#include "training/pipeline/timeline.hpp"

namespace wreath::training {

// How messages travel, here and in Pipeline: from rank r to the next one, r + 1 (the last rank's is rank 0), goes a
// queue of activations, and back a queue of gradients, whatever the chunk. A queue is first in, first out: the
// receiver's actions must take messages in the order in which the sender's make them. A send does not wait: an
// action starts once its queue holds fewer than kQueuedMessages that were not taken (with as many calls in flight a
// communicator makes the next one wait). Chunks of a pipeline of one rank hand over in memory, in any order.
// No action waits for one of several things, so every run reaches the same end: one run decides for all.
inline constexpr std::size_t kQueuedMessages = 128;

// What the proof counted: micro-batches in flight on each rank (of several chunks: together), at the most.
struct ScheduleProof {
  std::vector<int> in_flight;         // from the forward to the end of the backward by weights: activations are kept
  std::vector<int> in_flight_inputs;  // from the forward to the end of the backward by input
};

// Every micro-batch runs forward, then backward by input, then by weights once on every stage; on each stage the
// weights' parts run in the order of micro-batches, so that gradients have the same bits in every schedule; all ranks
// get through. Time and memory grow with the number of actions.
// Error: InvalidArgument, which names rank, action, and reason.
Result<ScheduleProof> verify(const PipelineSchedule& schedule);

// Times of one chunk and micro-batch, in any unit. A Backward takes both parts.
struct ScheduleCosts {
  std::int64_t forward = 1;
  std::int64_t backward_input = 1;
  std::int64_t backward_weights = 1;
  std::int64_t send = 0;  // from the end of the action to the arrival; beside the sender's work, any number at once
};

struct SimulatedPipeline {
  std::int64_t makespan = 0;
  std::vector<double> idle_shares;  // of each rank, of the makespan
  double idle_share = 0;            // their mean
  std::vector<Timeline> timelines;  // of each rank, from 0
};

// verify()'s errors, and InvalidArgument where a cost is negative.
Result<SimulatedPipeline> simulate(const PipelineSchedule& schedule, const ScheduleCosts& costs);

}  // namespace wreath::training
