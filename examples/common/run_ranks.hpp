// The ranks of an example are threads of this process, or the one rank that a launcher started this process as.
#pragma once

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "wreath/wreath.hpp"

// Prints the failure, and returns the program's exit code.
inline int say(const wreath::Exception& failure) {
  std::fprintf(stderr, "wreath: error: %s\n", failure.what());
  return wreath::exit_code(failure.error().code);
}

// Calls body(communicator) on every rank. Where no launcher started this process, it makes `threads` ranks here.
// Returns the program's exit code. An error that `body` throws is printed, and ends the calls of the other ranks.
inline int run_ranks(int threads, void (*body)(wreath::Communicator&)) try {
  const auto job = wreath::environment_job().value();
  // Processes of MPI's launcher that this one will not meet are an error, which says what to do.
  if (job.launched || !job.strangers.empty()) {
    auto communicator = wreath::Communicator::create_from_environment().value();
    body(communicator);
    return 0;
  }
  auto communicators = wreath::Communicator::create_local(threads).value();
  std::atomic<int> code = 0;
  {
    std::vector<std::jthread> ranks;
    for (auto& communicator : communicators) {
      ranks.emplace_back([&] {
        try {
          body(communicator);
        } catch (const wreath::Exception& failure) {
          code = say(failure);
          // The other ranks may wait for this rank.
          static_cast<void>(communicator.abort());
        }
      });
    }
  }
  return code;
} catch (const wreath::Exception& failure) {
  return say(failure);
}
