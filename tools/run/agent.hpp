// The launcher's part on a host: starts the ranks there, passes on their output, and ends them all.
#pragma once

#include "src/base/fd.hpp"
#include "tools/run/messages.hpp"

namespace wreath::launcher {

// Waits for the message Job on `commands`, runs `job`, obeys Signal messages and writes to `reports`. All ranks end
// when `commands` ends, because the launcher ended or its host vanished. No rank has run where that is before the
// message Job. For an elastic job it starts more ranks on request, and stays without any rank until `commands` ends. No
// process that a rank has started is left on return. Returns the exit code of the agent's process.
int run_agent(const HostJob& job, Fd commands, Fd reports);

// Runs an agent at the end of an ssh connection. The job comes through stdin, and reports go to stdout.
int run_remote_agent();

}  // namespace wreath::launcher
