// This file moves the training state between ranks when a job's ranks change. A plan names the ranks that have it, need
// it and send it.
//
// The model lies in parts, one for each place of the pipeline and tensor axes. Replicas of a part hold the same weights
// and moments after the same number of optimizer steps. Any survivor that holds the same part so has the part of a rank
// that is gone, or that has just joined.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "training/checkpoint/checkpoint.hpp"
#include "wreath/communicator.hpp"

namespace wreath::training {

// The part that a rank holds whole, with weights and moments.
struct Holding {
  // With -1 the rank holds nothing, or only shares of a part (ZeRO).
  int part = -1;
  std::int64_t steps = 0;
  // The rank can do one more step by itself, since it failed in the last call of that step. It then holds the part
  // after steps + 1.
  bool next_is_ready = false;
};

struct StatePlan {
  std::int64_t steps = 0;  // that all have seen afterwards
  // By rank: the rank that it gets its state from. Its own rank means that it has the state; -1 means that it needs
  // none.
  std::vector<int> sources;
};

// Plans the moves. `holdings` and `needs` (the part that a rank is to hold; -1: none) are by rank. All parts must have
// seen the same steps. The plan takes the highest number of steps that a rank has done and at which each needed part
// has a holder. A rank whose next step is ready is a holder after that step, too, and does it before anything moves
// (docs/decisions/0030). Holders of a part send to equally many others, give or take one. The error is Unavailable,
// which names a part without a holder. Every rank computes the same plan from the same arguments.
Result<StatePlan> plan_state(std::span<const Holding> holdings, std::span<const int> needs);

// Returns the values of all pieces, then of each moment, laid end to end.
std::vector<float> copy_of(const Shard& shard);
// Copies the values back into a shard of the same layout. Otherwise the error is InvalidArgument.
Status copy_into(const Shard& shard, std::span<const float> values);

// Sends `held`, this rank's own copy, to the ranks that get it, and receives into `received`, which is as long as the
// sender's copy. Every rank that the plan names calls it. Both may be empty where nothing is sent or received. Each
// receiver gets its part once.
Status move_state(Communicator& ranks, const StatePlan& plan, std::span<const float> held, std::span<float> received);

}  // namespace wreath::training
