// The launcher's end of the connection to one host: the process of its agent or its ssh, and the messages from there.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/run/lines.hpp"
#include "tools/run/messages.hpp"
#include "tools/run/plan.hpp"

namespace wreath::launcher {

struct RemoteRank {
  int pid = 0;
  bool over = false;
};

struct HostLink {
  std::string host;
  bool here = false;
  // The process of the agent or of ssh; -1: it has ended.
  pid_t pid = -1;
  int status = 0;  // of waitpid(2)
  Fd commands;
  Fd reports;  // non-blocking; empty: the stream has ended
  Fd errors;   // the output of ssh; non-blocking
  // The agent has started, and waits for `job`.
  bool greeted = false;
  bool done = false;  // the agent's last message came
  MessageReader reader;
  Lines noise{""};       // before the greeting
  Lines complaints{""};  // of `errors`
  std::map<int, RemoteRank> ranks;
  HostJob job;
};

// Starts the agent of a host: a fork of this process where the host is this one, else a process through ssh. No rank
// runs before give_job().
Result<std::unique_ptr<HostLink>> start_host(const Plan& plan, const Placement& placement,
                                             const JobEnvironment& environment);
// Makes the agent start the ranks of its host. An agent that is gone already shows at the end of its reports.
void give_job(HostLink& link);

}  // namespace wreath::launcher
