// Ranks for an example: threads of this process, or the one rank that a launcher started this process as.
#pragma once

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "wreath/wreath.hpp"

// Prints it, and returns the program's exit code.
inline int say(const wreath::Exception& failure) {
  std::fprintf(stderr, "wreath: error: %s\n", failure.what());
  return wreath::exit_code(failure.error().code);
}

// Calls body(communicator) on every rank, here `threads` of them where no launcher has named one.
// Returns the program's exit code. An error that `body` lets through is printed, and ends the others' calls.
inline int run_ranks(int threads, void (*body)(wreath::Communicator&)) try {
  const auto job = wreath::environment_job().value();
  if (job.launched || !job.strangers.empty()) {  // the latter is an error, which says what to do
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
          static_cast<void>(communicator.abort());  // the others may wait for this rank
        }
      });
    }
  }
  return code;
} catch (const wreath::Exception& failure) {
  return say(failure);
}
