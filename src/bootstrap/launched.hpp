// Who started this process, and where its ranks shall meet: the environment of a job, read but not acted on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wreath/environment.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Where rank 0 can be reached.
struct Rendezvous {
  std::vector<std::string> hosts;    // names or addresses of rank 0's host; empty: all ranks are of this host
  std::vector<std::uint16_t> ports;  // rank 0 listens at the first that is free
  std::string job;                   // ranks that name another one do not meet
  std::string said;                  // "MASTER_ADDR=h0": for messages
  std::string file;                  // ranks meet through this file instead; empty: they do not
};

// Of the launcher that environment_job() names.
Result<Rendezvous> rendezvous();

// What else the environment says that is not what `job` says, a sentence each; `alarming`: it looks like ranks that
// should meet, and will not.
struct Disagreement {
  std::string sentence;
  bool alarming = false;
};
std::vector<Disagreement> disagreements(const EnvironmentJob& job);

// "29600-29615,30000"; at most 1024 ports. `name` is the variable's, for the error.
Result<std::vector<std::uint16_t>> parse_ports(std::string_view text, std::string_view name);

// The first node of a list as Slurm writes it: "n[08-11,20],m3" is n08. Empty: it cannot be read.
std::string first_node(std::string_view list);

}  // namespace wreath
