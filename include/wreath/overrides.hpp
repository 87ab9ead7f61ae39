// Overrides and DebugOptions: the options of a communicator that most programs leave alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace wreath {

// The value for "the library decides by the machine it runs on".
inline constexpr std::size_t kAutomaticBytes = ~std::size_t{0};

// These replace what the tuner and the library would choose. Rank 0's are broadcast at start and win on all ranks.
struct Overrides {
  // A name from the table of algorithms, for every collective that has it; empty: the tuner chooses.
  std::string algorithm;
  // "steps" or "handwritten": the second runs the yardstick's loops, for algorithms that have one. Empty: steps.
  std::string executor;
  // Data lanes; 0: the tuner chooses.
  int lanes = 0;
  // Bytes of a tile; 0: the tuner chooses.
  std::size_t tile_bytes = 0;
  // Messages in flight per FIFO, a power of two.
  std::uint32_t slot_count = 4;
  // Memory for slots, per process; 0: WREATH_BUFFER_BYTES.
  std::size_t buffer_bytes = 0;
  // Peers of the host read messages of so many bytes or more out of this process, which copies once instead of twice,
  // where the kernel lets them; 0: never.
  std::size_t single_copy_bytes = kAutomaticBytes;
  // All_reduces of up to so many bytes, 1 MiB at most, are kernels of their own in their streams, by the protocol LL,
  // where all ranks have devices that reach each other's memory; 0: WREATH_LOW_LATENCY_BYTES, which is 0: none. While a
  // peer waits in one, a rank that is a thread of the same process on the same GPU frees no memory of it: that would
  // wait for the peer's kernel (docs/gpu.md).
  std::size_t low_latency_bytes = 0;
  // Rounds of a group's sends and receives that run at once; 0: all.
  int exchange_rounds = 0;
};

// These are for tests, and for a user who looks into a run.
struct DebugOptions {
  // A folder where every rank leaves what its lanes did (`wreath trace`); empty: WREATH_TRACE.
  std::string trace;
  // The faults that the links make, "delay=0.1,close=0.001,seed=7"; see WREATH_FAULTS.
  std::string faults;
  // The first message's number; tests begin shortly before 2^32, where it wraps.
  std::uint32_t first_sequence = 0;
};

}  // namespace wreath
