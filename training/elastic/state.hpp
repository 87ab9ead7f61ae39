// The training state as it moves between ranks when a job's ranks change: who has it, who needs it, who sends it.
//
// The model lies in parts (one for each place of the pipeline and tensor axes), and replicas of a part hold the same
// weights and moments after the same number of optimizer steps. So the part of a rank that is gone, or that has just
// come, is any survivor's that holds the same part.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "training/checkpoint/checkpoint.hpp"
#include "wreath/communicator.hpp"

namespace wreath::training {

// What a rank holds whole, weights and moments.
struct Holding {
  int part = -1;  // -1: nothing, or only shares of a part (ZeRO)
  std::int64_t steps = 0;
};

struct StatePlan {
  std::int64_t steps = 0;    // that all have seen afterwards
  std::vector<int> sources;  // by rank: whose state it gets; its own rank: it has it; -1: it needs none
};

// `holdings` and `needs` (the part that a rank is to hold; -1: none) are by rank. All parts must have seen the same
// steps: the highest number is taken of which each needed part has a holder. Holders of a part send to as many others
// each, give or take one. Unavailable names a part that has none. Every rank computes the same plan from the same
// arguments.
Result<StatePlan> plan_state(std::span<const Holding> holdings, std::span<const int> needs);

// The values of all pieces, then of each moment, laid end to end.
std::vector<float> copy_of(const Shard& shard);
// Back into a shard of the same layout, else InvalidArgument.
Status copy_into(const Shard& shard, std::span<const float> values);

// Every rank that the plan names calls it: sends `held`, this rank's own copy, to those that get it, and receives
// into `received`, which is as long as the sender's. Both may be empty where nothing is sent or received. Cost: each
// receiver gets its part once.
Status move_state(Communicator& ranks, const StatePlan& plan, std::span<const float> held, std::span<float> received);

}  // namespace wreath::training
