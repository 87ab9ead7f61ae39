// The request to `wreath run`, and what follows from it for each host.
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
  Size size;  // at the start
  // The restarts of single ranks and of all ranks, together.
  int max_restarts = 3;
  // The folder in which the job's own folder is made; empty: among this host's temporary files.
  std::string folder;
};

struct Plan {
  std::vector<Host> hosts;
  std::vector<Placement> placements;
  std::optional<Elasticity> elastic;
  std::vector<std::string> command;  // with its arguments
  // The words of the ssh command. The host and a command follow.
  std::vector<std::string> ssh;
  std::string program;  // `wreath` on other hosts
  // The address of rank 0 for ranks of other hosts; empty: it is found by the name of the first host.
  std::string address;
  // Variables for all ranks, as NAME or NAME=value.
  std::vector<std::string> environment;
  // The folder for a file of each rank's output; empty: none.
  std::string output;
  std::int64_t grace_ms = 5000;  // from SIGTERM to SIGKILL
  Bind bind = Bind::Cores;
  bool prefix = true;
  bool verbose = false;
};

int ranks_of(const Plan& plan);

// Splits a text such as "ssh -p 2222" into words. Quotes keep blanks. The result is empty where the quotes do not
// match.
std::vector<std::string> split_words(std::string_view text);
// Quotes a text as one word for a shell.
std::string quote(std::string_view word);

// The variables that ranks get beside their own numbers: the key, the meeting place, and variables to pass on. They are
// made once for a job.
struct JobEnvironment {
  std::vector<std::string> all;  // NAME=value for ranks anywhere
  // The variables for ranks of other hosts, which do not inherit those of this process.
  std::vector<std::string> remote;
  std::string key_source;      // for --verbose
  std::string meeting;         // for --verbose
  std::string elastic_folder;  // empty: the job is not elastic
};
// Makes the environment of a job. `elastic_folder` is the own folder of an elastic job, else empty.
Result<JobEnvironment> job_environment(const Plan& plan, const std::string& elastic_folder);

// Returns the work for the agent of one host.
HostJob host_job(const Plan& plan, const Placement& placement, const JobEnvironment& environment, bool here);

}  // namespace wreath::launcher
