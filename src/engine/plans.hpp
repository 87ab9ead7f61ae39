// Plans builds each schedule of a communicator once, lowers it and binds it to FIFOs.
#pragma once

#include <memory>
#include <vector>

#include "src/executor/host.hpp"
#include "src/membership/links.hpp"
#include "src/tuner/tuner.hpp"

namespace wreath {

// Points a plan at the FIFOs that its schedule names, and prepares staging for the FIFOs it sends on.
Status bind_fifos(Links& links, Plan& plan);

class Plans {
 public:
  // `lanes` is the number of lanes for plans, from lane 0.
  Plans(Links& links, int rank, int ranks, std::uint16_t lanes)
      : links_(links), rank_(rank), ranks_(ranks), lanes_(lanes) {}

  // Returns the plan of a choice. It makes the plan at its first use, with staging for its lanes. Pointers stay valid.
  Result<Plan*> find(const Choice& choice, Rank root);

  // Says whether every lane of `plan` may fill staging slots now. A message to several peers is in a slot of one of
  // them. Another plan may fill that slot only when all of them have read it.
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
  // The last plan that sent to several peers at once, until all of it is known to be read.
  const Plan* shared_ = nullptr;
};

}  // namespace wreath
