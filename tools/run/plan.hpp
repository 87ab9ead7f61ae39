// What `wreath run` was asked for, and what follows from it for each host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/run/hosts.hpp"
#include "tools/run/messages.hpp"

namespace wreath::launcher {

// A job that goes on when some of its ranks are lost.
struct Elasticity {
  int min_ranks = 1;  // with fewer all start again
  int max_ranks = 0;
  Size size;             // at the start
  int max_restarts = 3;  // of single ranks and of all, together
  std::string folder;    // where its own is made; empty: among this host's temporary files
};

struct Plan {
  std::vector<Host> hosts;
  std::vector<Placement> placements;
  std::optional<Elasticity> elastic;
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
  std::string elastic_folder;       // empty: the job is not elastic
};
// `elastic_folder`: of an elastic job, which has one of its own.
Result<JobEnvironment> job_environment(const Plan& plan, const std::string& elastic_folder);

// What the agent of one host is told.
HostJob host_job(const Plan& plan, const Placement& placement, const JobEnvironment& environment, bool here);

}  // namespace wreath::launcher
