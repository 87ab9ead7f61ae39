// Agreement lets ranks exchange texts of a few bytes around a checkpoint, and agree whether all of them succeeded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "wreath/communicator.hpp"

namespace wreath::training {

// The ranks of a job, over a communicator of their own. Every rank makes the same calls in the same order; one thread
// at a time uses it. A single rank communicates nothing.
class Agreement {
 public:
  // Makes the agreement; every rank calls it. An empty communicator is one rank.
  static Result<Agreement> create(Communicator& world);

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  // Returns every rank's text, by rank.
  Result<std::vector<std::string>> gather(const std::string& text);
  // Returns success where `mine` is a success on all ranks. Otherwise it returns, on all ranks, the error of the lowest
  // rank that has one.
  Status agree(const Status& mine);
  // Sums element by element over all ranks, in place.
  Status sum(std::span<std::int64_t> values);
  // Runs `work` on at most `at_most` ranks at the same time. Its errors stop no other rank; agree() shares them.
  Status take_turn(int at_most, const std::function<Status()>& work);

 private:
  std::unique_ptr<Communicator> communicator_;
  int rank_ = 0;
  int ranks_ = 1;
};

// Returns the result of `work`, whose exceptions become errors. A rank that threw would leave the others waiting.
Status guarded(const std::function<Status()>& work);

}  // namespace wreath::training
