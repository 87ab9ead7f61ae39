// Ranks as threads of the test: makes a communicator for each and runs a body on all of them at once.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "wreath/wreath.hpp"

namespace wreath::test {

class LocalRanks {
 public:
  LocalRanks(int ranks, const CommunicatorOptions& options)
      : communicators_(Communicator::create_local(ranks, options).value()) {}

  // Calls body(communicator) on a thread for each rank and waits for all.
  void run(const std::function<void(Communicator&)>& body) {
    std::vector<std::jthread> threads;
    for (Communicator& communicator : communicators_) threads.emplace_back([&] { body(communicator); });
  }
  std::vector<Communicator>& communicators() { return communicators_; }
  int ranks() const { return static_cast<int>(communicators_.size()); }

 private:
  std::vector<Communicator> communicators_;
};

}  // namespace wreath::test
