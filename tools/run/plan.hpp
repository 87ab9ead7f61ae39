// What `wreath run` was asked for, and what follows from it for each host.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/run/hosts.hpp"
#include "tools/run/messages.hpp"

namespace wreath::launcher {

struct Plan {
  std::vector<Placement> placements;
  std::vector<std::string> command;      // with its arguments
  std::vector<std::string> ssh;          // in words; the host and a command follow
  std::string program;                   // `wreath` on other hosts
  std::string address;                   // of rank 0, for ranks of other hosts; empty: found by the first host's name
  std::vector<std::string> environment;  // NAME or NAME=value, for all ranks
  std::string output;                    // folder for a file of each rank's output; empty: none
  std::int64_t grace_ms = 5000;          // from SIGTERM to SIGKILL
  Bind bind = Bind::Cores;
  bool prefix = true;
  bool verbose = false;
};

int ranks_of(const Plan& plan);

// "ssh -p 2222" in words; quotes keep blanks. Empty: the quotes do not match.
std::vector<std::string> split_words(std::string_view text);
// One word for a shell.
std::string quote(std::string_view word);

// What ranks are told beside their own numbers: the key, where they meet, and variables to pass on. Made once.
struct JobEnvironment {
  std::vector<std::string> all;     // NAME=value for ranks anywhere
  std::vector<std::string> remote;  // for ranks of other hosts, which do not inherit this process's
  std::string key_source;           // for --verbose
  std::string meeting;              // likewise
};
Result<JobEnvironment> job_environment(const Plan& plan);

// What the agent of one host is told.
HostJob host_job(const Plan& plan, const Placement& placement, const JobEnvironment& environment, bool here);

}  // namespace wreath::launcher
