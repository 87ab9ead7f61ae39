// The plans of a communicator: each schedule is built, lowered and bound to FIFOs once.
#pragma once

#include <memory>
#include <vector>

#include "src/executor/host.hpp"
#include "src/membership/links.hpp"
#include "src/tuner/tuner.hpp"

namespace wreath {

// Points a plan at the FIFOs that its schedule names, with staging for those it sends on.
Status bind_fifos(Links& links, Plan& plan);

class Plans {
 public:
  // `lanes`: how many there are for plans, from 0.
  Plans(Links& links, int rank, int ranks, std::uint16_t lanes)
      : links_(links), rank_(rank), ranks_(ranks), lanes_(lanes) {}

  // The plan of a choice; made at its first use, with staging for its lanes. Pointers stay valid.
  Result<Plan*> find(const Choice& choice, Rank root);

  // Whether every lane of `plan` may fill staging slots now. A message to several peers lies in a slot of one of
  // them, which another plan may fill only when all have read it.
  bool enter(const Plan& plan);

 private:
  Result<std::unique_ptr<Plan>> make(const Choice& choice, Rank root);

  Links& links_;
  int rank_;
  int ranks_;
  std::uint16_t lanes_;
  struct Entry {
    const Algorithm* algorithm;
    int data_lanes;
    Rank root;
    std::unique_ptr<Plan> plan;
  };
  std::vector<Entry> entries_;
  const Plan* shared_ = nullptr;  // the last that sent to several peers at once, unless all was read
};

}  // namespace wreath
