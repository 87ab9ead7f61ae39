// Ends a rank within its start: all ranks have met, and it has linked with nobody yet. Its connections close some time
// before its process is seen to have ended. By chance this may happen to a large process, too.
#pragma once

#include <signal.h>

#include "src/base/socket.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/communicator/options.hpp"
#include "src/communicator/rank_communicator.hpp"
#include "wreath/environment.hpp"

namespace wreath::testing_support {

// Returns only where the ranks do not meet.
inline Status meet_and_die(const CommunicatorOptions& options) {
  const auto job = environment_job();
  if (!job) return job.error();
  const auto complete = complete_options(options);
  if (!complete) return complete.error();
  {
    const auto membership = join_environment(*job, request_of(job->rank, job->ranks, *complete, nullptr));
    if (!membership) return membership.error();
  }
  sleep_ms(300);
  ::raise(SIGKILL);
  return {};
}

}  // namespace wreath::testing_support
