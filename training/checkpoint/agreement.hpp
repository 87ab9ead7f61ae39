// What ranks tell each other around a checkpoint: texts of a few bytes, and whether it went well everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "wreath/communicator.hpp"

namespace wreath::training {

// The ranks of a job, over a communicator of their own. Every rank makes the same calls in the same order; of one
// thread at a time. Alone (one rank) nothing is communicated.
class Agreement {
 public:
  // Every rank calls it. An empty communicator is one rank.
  static Result<Agreement> create(Communicator& world);

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  // Every rank's text, by rank.
  Result<std::vector<std::string>> gather(const std::string& text);
  // Success where all ranks bring it; else, on all ranks, the error of the lowest rank that brings one.
  Status agree(const Status& mine);
  // Element by element over all ranks, in place.
  Status sum(std::span<std::int64_t> values);
  // Runs `work`, on at most `at_most` ranks at the same time. Its errors stop no other rank: see agree().
  Status take_turn(int at_most, const std::function<Status()>& work);

 private:
  std::unique_ptr<Communicator> communicator_;
  int rank_ = 0;
  int ranks_ = 1;
};

// The result of `work`, whose exceptions become errors: a rank that threw would leave the others waiting.
Status guarded(const std::function<Status()>& work);

}  // namespace wreath::training
