// The launcher's half on a host: starts its ranks there, passes on what they say, and ends them all.
#pragma once

#include "src/base/fd.hpp"
#include "tools/run/messages.hpp"

namespace wreath::launcher {

// Waits for the message Job of `commands`, runs `job`, takes Signal messages and writes to `reports`. When `commands`
// ends, because the launcher did or its host vanished, all ranks end. Of an elastic job it starts more ranks when it is
// told to, and stays without any until `commands` ends. Where that is before the message Job, no rank has run. On
// return no process is left that a rank has started. The exit code of the agent's process.
int run_agent(const HostJob& job, Fd commands, Fd reports);

// An agent at the end of an ssh connection: the job comes through stdin, reports go to stdout.
int run_remote_agent();

}  // namespace wreath::launcher
