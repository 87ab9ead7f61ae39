// A rank that ends within its start: all have met, and it has linked with nobody yet.
#pragma once

#include <signal.h>

#include "src/bootstrap/bootstrap.hpp"
#include "src/communicator/options.hpp"
#include "src/communicator/start.hpp"

namespace wreath::testing_support {

// Returns where they do not meet.
inline Status meet_and_die(const CommunicatorOptions& options) {
  const auto job = environment_job();
  if (!job) return job.error();
  const auto complete = complete_options(options);
  if (!complete) return complete.error();
  const auto membership = join_environment(*job, request_of(job->rank, job->ranks, *complete, nullptr));
  if (!membership) return membership.error();
  ::raise(SIGKILL);
  return {};
}

}  // namespace wreath::testing_support
