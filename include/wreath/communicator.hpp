// Communicator: the ranks that act together. Start here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "wreath/result.hpp"
#include "wreath/types.hpp"
#include "wreath/unique_id.hpp"
#include "wreath/work.hpp"

namespace wreath {

// Milliseconds. Each ends in an error that names rank, operation and reason.
struct Timeouts {
  std::int64_t bootstrap_ms = 60'000;     // all ranks must have met
  std::int64_t late_warning_ms = 10'000;  // a live rank has not entered a call: warn
  std::int64_t arrival_ms = 600'000;      // ... : fail
  std::int64_t stall_ms = 30'000;         // all entered, no byte moved: fail
};

// Everything has a working default. Fields that shape schedules (algorithm, lanes, tile_bytes,
// reproducible, slot_count, buffer_bytes, first_sequence) must be equal on all ranks: rank 0's are broadcast at
// start and win.
struct CommunicatorOptions {
  std::vector<std::string> transports;  // allowed names; empty: all of this build
  std::string algorithm;                // a registry name; empty: the tuner chooses
  int lanes = 0;                        // data lanes; 0: the tuner chooses
  std::size_t tile_bytes = 0;           // 0: the tuner chooses
  bool reproducible = true;             // same inputs, same bits, whatever size, transport or lanes
  std::uint32_t slot_count = 4;         // messages in flight per FIFO; a power of two
  std::size_t buffer_bytes = 0;         // memory for slots, per process; 0: WREATH_BUFFER_BYTES
  std::uint32_t first_sequence = 0;     // for tests of the wrap at 2^32
  Timeouts timeouts;
};

// What one rank holds of a communicator. Move-only.
//
// Any thread may use it, one call at a time: two at once get InvalidUsage. abort() and error() may
// be called at any time from any thread. After a failure every call returns the first error.
class Communicator {
 public:
  Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  // Waits up to 5 s for operations in flight, then aborts them with a warning.
  ~Communicator();

  // `ranks` communicators of one process, element r being rank r: for threads of one program.
  static Result<std::vector<Communicator>> create_local(int ranks, const CommunicatorOptions& = {});
  // Rank `rank` of `ranks`, met through an id that one of them made. Blocks until all have met.
  static Result<Communicator> create(const UniqueId& id, int rank, int ranks, const CommunicatorOptions& = {});
  // From RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; alone when none is set.
  static Result<Communicator> create_from_environment(const CommunicatorOptions& = {});

  int rank() const noexcept;
  int ranks() const noexcept;

  // output[i] = input[i] of rank 0 + ... + of rank n-1, on every rank. `count` elements of `dtype`
  // each; input == output is in place, any other overlap is InvalidArgument. Returns when this
  // rank's output is complete and its input may be reused.
  Status all_reduce(const void* input, void* output, std::size_t count, DataType dtype, ReduceOp op = ReduceOp::Sum);
  // The same, returning at once (with 128 calls in flight: once the first is over). Both buffers belong to the
  // operation until the Work is done.
  Result<Work> all_reduce_async(const void* input, void* output, std::size_t count, DataType dtype,
                                ReduceOp op = ReduceOp::Sum);

  template <typename T>
  Status all_reduce(std::span<const T> input, std::span<T> output, ReduceOp op = ReduceOp::Sum) {
    WREATH_TRY(check_sizes(input.size(), output.size()));
    return all_reduce(input.data(), output.data(), input.size(), dtype_of<T>, op);
  }
  // In place.
  template <typename T>
  Status all_reduce(std::span<T> buffer, ReduceOp op = ReduceOp::Sum) {
    return all_reduce(buffer.data(), buffer.data(), buffer.size(), dtype_of<T>, op);
  }

  // Fails the communicator on this rank at once and tells the others. Wakes every waiter; returns
  // within 1 s; afterwards no thread of this process touches buffers of its operations.
  Status abort();
  // The first error of this communicator, or success.
  Status error() const;

  // Which transport links this rank to `peer` ("self" for itself), and why not a better one.
  std::string transport_to(int peer) const;
  // The algorithm, data lanes and tile that a call of `bytes` bytes will use: "two_shot lanes=1 tile=256K
  // order=canonical".
  std::string plan_for(Collective collective, std::size_t bytes) const;

 private:
  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  static Status check_sizes(std::size_t input, std::size_t output);
  std::unique_ptr<Impl> impl_;
};

}  // namespace wreath
