// What a communicator may hold: for `wreath doctor --memory`, and for whoever plans a machine's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wreath/communicator.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Of one rank, whose peers are all on its host and map its memory. Bytes are upper bounds: staging is made with a
// lane's first message.
struct MemoryBudget {
  int ranks = 0;
  int ranks_in_process = 1;
  std::uint32_t slot_bytes = 0;
  std::uint32_t slot_count = 0;  // of each FIFO
  std::uint32_t lanes = 0;       // that fill slots in most algorithms, and the one of sends and receives
  std::size_t headers = 0;       // slot headers and counters, in the control segment
  std::size_t small_area = 0;    // small messages, in the control segment
  std::size_t staging = 0;       // all slots of `lanes` to all peers
  std::size_t recorder = 0;      // the flight recorder
  std::size_t bookkeeping = 0;   // links, plans, the progress thread's stack: an allowance
  int descriptors = 0;
  int threads = 0;  // of the process, beside the program's own

  std::size_t bytes() const { return headers + small_area + staging + recorder + bookkeeping; }
};

// The budget of the first communicator of a process, each of which holds `ranks_in_process` of the ranks. Options and
// environment as Communicator::create reads them.
Result<MemoryBudget> memory_budget(int ranks, int ranks_in_process = 1, const CommunicatorOptions& options = {});

}  // namespace wreath
