// The launcher's end of one host: its agent's process or ssh connection, and what comes from there.
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
  pid_t pid = -1;  // of the agent, or of ssh; -1: it has ended
  int status = 0;  // how it ended
  Fd commands;
  Fd reports;            // non-blocking; empty: the stream has ended
  Fd errors;             // what ssh says; non-blocking
  bool greeted = false;  // there is an agent, which waits for `job`
  bool done = false;     // the agent's last word
  MessageReader reader;
  Lines noise{""};       // before the greeting
  Lines complaints{""};  // of `errors`
  std::map<int, RemoteRank> ranks;
  HostJob job;
};

// Starts the agent of a host: a fork of this process where the host is this one, else through ssh. No rank runs before
// give_job().
Result<std::unique_ptr<HostLink>> start_host(const Plan& plan, const Placement& placement,
                                             const JobEnvironment& environment);
// Has the agent start the ranks of its host. One that is gone already is seen at the end of its reports.
void give_job(HostLink& link);

}  // namespace wreath::launcher
