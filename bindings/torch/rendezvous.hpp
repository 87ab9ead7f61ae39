// Makes the ranks of a group meet: one makes Wreath's id, and c10d's store carries it to the others.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "wreath/communicator.hpp"

namespace wreath_torch {

// Is raised once, and read by any number of threads that wait: afterwards they give up.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();
  void raise() noexcept;
  // Sleeps for `time`, or until it is raised; returns true when it is raised.
  bool wait(std::chrono::milliseconds time) const noexcept;
  int descriptor() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

struct Meeting {
  c10::intrusive_ptr<c10d::Store> store;
  // Is a key of the store; rank 0 removes it when all have met, so that it can be used again.
  std::string key;
  // Names the ranks, for errors: "the ranks of group 7".
  std::string who;
  int rank = 0;
  int ranks = 1;
  std::chrono::milliseconds timeout{};
  const Interrupt* interrupt = nullptr;
  wreath::CommunicatorOptions options{};
};

// Blocks until all have met, or the time is over. The id that the store then holds permits any process that reads it to
// join.
wreath::Result<wreath::Communicator> meet(const Meeting& meeting);

// Returns the clocks of a communicator whose group has this timeout.
wreath::Timeouts clocks_of(std::chrono::milliseconds timeout);

}  // namespace wreath_torch
