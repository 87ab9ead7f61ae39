// The plans of a communicator: each schedule is built, lowered and bound to FIFOs once.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "src/communicator/links.hpp"
#include "src/executor/host.hpp"
#include "src/tuner/tuner.hpp"

namespace wreath {

class Plans {
 public:
  Plans(Links& links, int rank, int ranks, std::uint16_t lanes)
      : links_(links), rank_(rank), ranks_(ranks), lanes_(lanes) {}

  // The plan of a choice; made at its first use, with staging for its lanes. Pointers stay valid.
  Result<Plan*> find(const Choice& choice);

  // Whether every lane of `plan` may fill staging slots now. Slots of a lane are shared by the
  // receivers its plan names; when another plan used the lane before, that must have been read.
  bool enter(const Plan& plan);

 private:
  Result<std::unique_ptr<Plan>> make(const Choice& choice);

  Links& links_;
  int rank_;
  int ranks_;
  std::uint16_t lanes_;
  struct Entry {
    const Algorithm* algorithm;
    int data_lanes;
    std::unique_ptr<Plan> plan;
  };
  std::vector<Entry> entries_;
  const Plan* last_ = nullptr;
};

}  // namespace wreath
