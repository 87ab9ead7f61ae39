// What links the ranks of a job, as its own communicator decided.
#pragma once

#include <string>
#include <vector>

#include "wreath/communicator.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Links that are alike; each pair of ranks has one for each direction.
struct LinkClass {
  std::string transport;  // "shm, single copy", "tcp over eth0"
  std::string refused;    // why no transport before it in the table; empty: there is none
  int links = 0;
};

struct RankLinks {
  std::vector<std::string> hosts;  // by rank
  std::vector<LinkClass> classes;  // the most links first
  std::vector<int> class_of;       // of {a, b}, at a * ranks + b; -1 where a is b

  int ranks() const { return static_cast<int>(hosts.size()); }
};

// Every rank of the communicator calls it; rank 0 gets what all of them say.
Result<RankLinks> gather_links(Communicator& communicator);

// Starts processes of this host beside the caller, which is rank 0 and has no threads.
Result<RankLinks> link_local_ranks(int ranks);

}  // namespace wreath
