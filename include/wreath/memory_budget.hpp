// Computes what a communicator may hold, for `wreath doctor --memory` and for planning a machine's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wreath/communicator.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Describes the memory of one rank whose peers are all on its host and map its memory. Bytes are upper bounds:
// staging is made with a lane's first message.
struct MemoryBudget {
  int ranks = 0;
  int ranks_in_process = 1;
  std::uint32_t slot_bytes = 0;
  // Counts the bytes of a slot of the lane of sends and receives.
  std::uint32_t exchange_slot_bytes = 0;
  // Counts the slots of each FIFO.
  std::uint32_t slot_count = 0;
  // Counts the lanes that fill slots in most algorithms, and the one of sends and receives.
  std::uint32_t lanes = 0;
  // Counts slot headers and counters, in the control segment.
  std::size_t headers = 0;
  // Counts the area of small messages, and ping-pong slots, in the control segment.
  std::size_t small_area = 0;
  // Counts all slots of `lanes` to all peers.
  std::size_t staging = 0;
  // Counts the flight recorder.
  std::size_t recorder = 0;
  // Allows for links, plans and the progress thread's stack.
  std::size_t bookkeeping = 0;
  int descriptors = 0;
  // Counts the threads of the process, beside the program's own.
  int threads = 0;

  std::size_t bytes() const { return headers + small_area + staging + recorder + bookkeeping; }
};

// Returns the budget of the first communicator of a process, where each process holds `ranks_in_process` of the
// ranks. Options and environment are read as Communicator::create reads them.
Result<MemoryBudget> memory_budget(int ranks, int ranks_in_process = 1, const CommunicatorOptions& options = {});

}  // namespace wreath
