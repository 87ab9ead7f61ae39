// Overrides and DebugOptions: the options of a communicator that most programs leave alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace wreath {

// This value means that the library decides by the machine that it runs on.
inline constexpr std::size_t kAutomaticBytes = ~std::size_t{0};

// Overrides replace the choices of the tuner and the library. Rank 0's are broadcast at start and win on all ranks.
struct Overrides {
  // A name from the table of algorithms, for every collective that has it. When it is empty, the tuner chooses.
  std::string algorithm;
  // "steps" or "handwritten". The second one runs the yardstick's loops, for algorithms that have such a loop. When it
  // is empty, "steps" runs.
  std::string executor;
  // The number of data lanes; with 0 the tuner chooses.
  int lanes = 0;
  // The bytes of a tile; with 0 the tuner chooses.
  std::size_t tile_bytes = 0;
  // The number of messages in flight per FIFO, a power of two.
  std::uint32_t slot_count = 4;
  // The memory for slots, per process; with 0 WREATH_BUFFER_BYTES decides.
  std::size_t buffer_bytes = 0;
  // Peers of the host read messages of at least this size out of this process, where the kernel lets them. This copies
  // once instead of twice. With 0 they never do.
  std::size_t single_copy_bytes = kAutomaticBytes;
  // The largest all_reduce, up to 1 MiB, that runs as a kernel of its own in its stream, by the protocol LL. All ranks
  // must have devices that reach each other's memory. With 0 WREATH_LOW_LATENCY_BYTES decides; its default is 0, which
  // means none. While a peer waits in such a call, a rank in the same process on the same GPU frees no memory of that
  // GPU. Freeing would wait for the peer's kernel (docs/gpu.md).
  std::size_t low_latency_bytes = 0;
  // The number of rounds of a group's sends and receives that run at once; with 0 all do.
  int exchange_rounds = 0;
};

// These options are for tests, and for a user who looks into a run.
struct DebugOptions {
  // A folder where every rank leaves a record of its lanes' work (`wreath trace`). When it is empty, WREATH_TRACE
  // decides.
  std::string trace;
  // The faults that the links make, such as "delay=0.1,close=0.001,seed=7"; see WREATH_FAULTS.
  std::string faults;
  // The number of the first message. Tests begin shortly before 2^32, where it wraps.
  std::uint32_t first_sequence = 0;
  // A thread that waits for peers looks again after so long, although nothing woke it; 0 lets the library decide. Tests
  // raise it, so that a wake-up that is lost shows.
  std::int64_t longest_sleep_ms = 0;
};

}  // namespace wreath
