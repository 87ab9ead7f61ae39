// Reads the environment of a job without acting on it: which launcher started this process, and where its ranks meet.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/bootstrap/carrier.hpp"
#include "wreath/environment.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Describes where rank 0 can be reached.
struct Rendezvous {
  // Lists names or addresses of rank 0's host; empty where all ranks are on this host.
  std::vector<std::string> hosts;
  // Rank 0 listens at the first of these that is free.
  std::vector<std::uint16_t> ports;
  // Ranks that name different jobs do not meet.
  std::string job;
  // Holds text such as "MASTER_ADDR=h0", for messages.
  std::string said;
  // Names the file through which ranks meet instead; empty where they do not.
  std::string file = {};
  // Says who brings the rest from rank 0 before the ranks meet.
  Carrier carrier = Carrier::None;
  // Is the job's key, where the carrier brought one.
  std::shared_ptr<const Key> key = {};
  // Names the step of several nodes whose ranks may meet without a key through a file on shared storage.
  std::string step = {};
};

// These ports are above the ephemeral ones. A job waits at one of them or of the few next.
inline constexpr int kFirstMeetingPort = 61'000;
inline constexpr int kMeetingPorts = 4520;

// Returns `first` and the next 15 ports, as far as there are so many.
std::vector<std::uint16_t> ports_from(std::int64_t first);

// Returns the meeting of the launcher that environment_job() names.
Result<Rendezvous> rendezvous();

// Describes what else the environment says that `job` does not say, in a sentence. `alarming` is true where ranks look
// as if they should meet, and will not.
struct Disagreement {
  std::string sentence;
  bool alarming = false;
};
// Returns all such disagreements with `job`.
std::vector<Disagreement> disagreements(const EnvironmentJob& job);

// Returns the first node of a list as Slurm writes it: n08 for "n[08-11,20],m3". Empty where the list cannot be read.
std::string first_node(std::string_view list);

}  // namespace wreath
