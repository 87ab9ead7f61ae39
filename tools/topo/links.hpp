// The links between the ranks of a job, as its own communicator chose them.
#pragma once

#include <string>
#include <vector>

#include "wreath/communicator.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Links that are alike. Each pair of ranks has a link for each direction.
struct LinkClass {
  std::string transport;  // "shm, single copy", "tcp over eth0"
  // The reason against the transports before it in the table; empty: there is none before it.
  std::string refused;
  int links = 0;
};

struct RankLinks {
  std::vector<std::string> hosts;  // by rank
  std::vector<LinkClass> classes;  // the most links first
  // The class of link {a, b}, at a * ranks + b; -1 where a is b.
  std::vector<int> class_of;

  int ranks() const { return static_cast<int>(hosts.size()); }
};

// Gathers the links. Every rank of the communicator calls it, and rank 0 gets the links of all of them.
Result<RankLinks> gather_links(Communicator& communicator);

// Starts processes of this host beside the caller, and returns their links. The caller is rank 0, and must have no
// other threads.
Result<RankLinks> link_local_ranks(int ranks);

}  // namespace wreath
