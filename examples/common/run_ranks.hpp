// Ranks for an example: threads of this process, or the one rank that a launcher started this process as.
#pragma once

#include <cstdio>
#include <thread>
#include <vector>

#include "wreath/wreath.hpp"

// Calls body(communicator) on every rank, here `threads` of them where no launcher has named one.
// Returns the program's exit code. An error that `body` lets through is printed, or ends the program on a thread.
inline int run_ranks(int threads, void (*body)(wreath::Communicator&)) try {
  if (wreath::environment_job().value().launched) {
    auto communicator = wreath::Communicator::create_from_environment().value();
    body(communicator);
    return 0;
  }
  auto communicators = wreath::Communicator::create_local(threads).value();
  std::vector<std::jthread> ranks;
  for (auto& communicator : communicators) ranks.emplace_back([&] { body(communicator); });
  return 0;
} catch (const wreath::Exception& failure) {
  std::fprintf(stderr, "wreath: error: %s\n", failure.what());
  return wreath::exit_code(failure.error().code);
}
