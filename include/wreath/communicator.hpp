// A Communicator is the group of ranks that act together. Start here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wreath/call.hpp"
#include "wreath/overrides.hpp"
#include "wreath/result.hpp"
#include "wreath/types.hpp"
#include "wreath/unique_id.hpp"
#include "wreath/wire_counts.hpp"
#include "wreath/work.hpp"

namespace wreath {

// The clocks, in milliseconds. Each one ends in an error that names rank, operation and reason; late_warning_ms ends in
// a warning.
struct Timeouts {
  // All ranks must have met within this time.
  std::int64_t bootstrap_ms = 60'000;
  // A live rank has not entered a call: this gives a warning.
  std::int64_t late_warning_ms = 10'000;
  // A live rank has not entered a call: this is an error.
  std::int64_t arrival_ms = 600'000;
  // All ranks entered a call, and no byte moved: this is an error.
  std::int64_t stall_ms = 30'000;
};

// Every option has a working default. The fields that shape schedules must be equal on all ranks: reproducible,
// check_wires, tuning, overrides and debug.first_sequence. Rank 0 broadcasts its values at start, and they win. A
// tuning is broadcast as the choices in it, so that no other rank needs the file.
struct CommunicatorOptions {
  // The names of the transports that may be used. When it is empty, all transports of this build may be used.
  std::vector<std::string> transports;
  // With true the same inputs give the same bits, whatever the size, the transport or the lanes.
  bool reproducible = true;
  // With true, messages over wires carry a checksum: bytes that were altered on their way end in PeerLost, and not in a
  // result. With false, WREATH_CHECK decides.
  bool check_wires = false;
  // A file of `wreath tune` (tuning.hpp), which rank 0 reads; "none" means only the library's own rules. When it is
  // empty, WREATH_TUNING names the file, or else this machine's file in the user's cache is read. A file in the cache
  // that cannot be used is passed over with a warning.
  std::string tuning;
  // The device of this rank's calls on device memory: "cuda:N", "host" or "none", as Device::name() says. In
  // create_local it may be a list: rank r gets the entry at r modulo its length. When it is empty, WREATH_DEVICE
  // decides, or else the CUDA device that is current in this thread, where the program uses CUDA.
  std::string device;
  Timeouts timeouts;
  Overrides overrides;
  DebugOptions debug;
};

// The bytes of user data that a rank's calls moved between ranks, without headers: the cost of an algorithm. `sent`
// counts all messages that the rank handed to a transport. The peer may read them in place, out of shared memory or
// from a socket. `loaded` counts the bytes that the rank loaded from its peers' areas: small calls over shared memory
// (up to 16 KiB) have no messages. The sum of sent + loaded over all ranks is the data that left one rank for another.
struct WireBytes {
  std::uint64_t sent = 0;
  std::uint64_t loaded = 0;
};

// One rank's handle of a communicator. It is move-only.
//
// Any thread may use it, one call at a time: two calls at once get InvalidUsage. Any thread may call abort(), revoke()
// and error() at any time. After a failure every call returns the first error.
class Communicator {
 public:
  Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  // Waits up to 5 s for operations in flight, then aborts them with a warning. Where a network adapter still reads or
  // writes memory after that, as abort() tells, this memory is never freed: a warning names the adapter.
  ~Communicator();

  // Makes `ranks` communicators in one process, for the threads of one program. Element r is rank r.
  static Result<std::vector<Communicator>> create_local(int ranks, const CommunicatorOptions& = {});
  // Makes rank `rank` of `ranks`, which meet through an id that one of them made. Blocks until all have met.
  static Result<Communicator> create(const UniqueId& id, int rank, int ranks, const CommunicatorOptions& = {});
  // Does the same, and gives up with an error when the descriptor `interrupt` (an eventfd, a pipe) becomes readable.
  // The caller keeps the descriptor. If this rank had come to the meeting, the start of the others fails, too.
  static Result<Communicator> create(const UniqueId& id, int rank, int ranks, const CommunicatorOptions& options,
                                     int interrupt);
  // Makes the rank that a launcher started this process as (environment.hpp). Without a launcher it is alone.
  static Result<Communicator> create_from_environment(const CommunicatorOptions& = {});

  int rank() const noexcept;
  int ranks() const noexcept;

  // ---- collectives: every rank makes the same calls in the same order ----
  //
  // `count` is in elements of `dtype`. It counts the whole vector, or one block where blocks of ranks move
  // (reduce_scatter, all_gather, all_to_all, gather, scatter). In the second case the other buffer holds ranks() blocks
  // in rank order. The v-forms take the counts of all blocks, which are equal on all ranks except for all_to_all_v.
  //
  // A call returns when this rank's output is complete and its input may be reused. The _async form returns at once;
  // with 128 calls in flight it returns once the first is over. The buffers belong to the operation until the Work is
  // done.
  //
  // A call is in place if output == input, or if one buffer is a block of the other. That is output + rank() * count ==
  // input for all_gather, and for gather at its root. It is output == input + rank() * count for reduce_scatter, and
  // for scatter at its root. Any other overlap is InvalidArgument, as is any in place all_to_all. Buffers that a rank
  // does not use (the output of reduce beside its root, ...) may be null.
  //
  // Ranks get Mismatch if their calls differ in anything that all must give alike. Counts of all_to_all_v, gather_v and
  // scatter_v are not compared, but a rank that gets a block of another size than it expects gets Mismatch. A rank that
  // only writes in a call (the root of broadcast, ...) may be done before the difference is known. Then the error comes
  // with the first message between two ranks that differ, after some 16 calls at most. It names the first call that
  // differed.

  // Gives every rank output[i] = input[i] of rank 0 op ... op input[i] of rank n-1.
  Status all_reduce(const void* input, void* output, std::size_t count, DataType dtype, const Reduction& = {});
  Result<Work> all_reduce_async(const void* input, void* output, std::size_t count, DataType dtype,
                                const Reduction& = {});
  // Gives rank r block r of the same sums.
  Status reduce_scatter(const void* input, void* output, std::size_t count, DataType dtype, const Reduction& = {});
  Result<Work> reduce_scatter_async(const void* input, void* output, std::size_t count, DataType dtype,
                                    const Reduction& = {});
  Status reduce_scatter_v(const void* input, const Blocks& blocks, void* output, DataType dtype, const Reduction& = {});
  Result<Work> reduce_scatter_v_async(const void* input, const Blocks& blocks, void* output, DataType dtype,
                                      const Reduction& = {});
  // Gives every rank the block of every rank.
  Status all_gather(const void* input, void* output, std::size_t count, DataType dtype);
  Result<Work> all_gather_async(const void* input, void* output, std::size_t count, DataType dtype);
  Status all_gather_v(const void* input, void* output, const Blocks& blocks, DataType dtype);
  Result<Work> all_gather_v_async(const void* input, void* output, const Blocks& blocks, DataType dtype);
  // Gives every rank the root's vector.
  Status broadcast(const void* input, void* output, std::size_t count, DataType dtype, Rank root);
  Result<Work> broadcast_async(const void* input, void* output, std::size_t count, DataType dtype, Rank root);
  // Works like all_reduce, but only the root gets the result.
  Status reduce(const void* input, void* output, std::size_t count, DataType dtype, Rank root, const Reduction& = {});
  Result<Work> reduce_async(const void* input, void* output, std::size_t count, DataType dtype, Rank root,
                            const Reduction& = {});
  // Moves block d of rank s to block s of rank d.
  Status all_to_all(const void* input, void* output, std::size_t count, DataType dtype);
  Result<Work> all_to_all_async(const void* input, void* output, std::size_t count, DataType dtype);
  // Sends `sent.counts[d]` elements to rank d, and receives `received.counts[s]` from rank s. Both ends must give the
  // same count.
  Status all_to_all_v(const void* input, const Blocks& sent, void* output, const Blocks& received, DataType dtype);
  Result<Work> all_to_all_v_async(const void* input, const Blocks& sent, void* output, const Blocks& received,
                                  DataType dtype);
  // Gives the root the block of every rank.
  Status gather(const void* input, void* output, std::size_t count, DataType dtype, Rank root);
  Result<Work> gather_async(const void* input, void* output, std::size_t count, DataType dtype, Rank root);
  Status gather_v(const void* input, void* output, const Blocks& blocks, DataType dtype, Rank root);
  Result<Work> gather_v_async(const void* input, void* output, const Blocks& blocks, DataType dtype, Rank root);
  // Gives rank r block r of the root.
  Status scatter(const void* input, void* output, std::size_t count, DataType dtype, Rank root);
  Result<Work> scatter_async(const void* input, void* output, std::size_t count, DataType dtype, Rank root);
  Status scatter_v(const void* input, const Blocks& blocks, void* output, DataType dtype, Rank root);
  Result<Work> scatter_v_async(const void* input, const Blocks& blocks, void* output, DataType dtype, Rank root);
  // Returns once every rank has called it.
  Status barrier();
  Result<Work> barrier_async();
  // Runs or starts any of these calls, described as a value.
  Status run(const Call& call);
  Result<Work> start(const Call& call);

  // ---- one rank to another ----
  //
  // The k-th send from rank a to rank b matches the k-th recv of b from a; both name the same count and dtype. Calls of
  // a communicator run in the order they were made. So ranks that send to each other do it in a Group (group.hpp),
  // where sends and recvs run together, in any order. A rank sends to itself inside a group only. With a `stream` a
  // message begins once the stream's earlier work is over; the messages of a group then have one stream.
  Status send(const void* input, std::size_t count, DataType dtype, Rank to);
  Result<Work> send_async(const void* input, std::size_t count, DataType dtype, Rank to, Stream* stream = nullptr);
  Status recv(void* output, std::size_t count, DataType dtype, Rank from);
  Result<Work> recv_async(void* output, std::size_t count, DataType dtype, Rank from, Stream* stream = nullptr);

  // ---- the same over spans: `count` follows from their sizes ----

  template <typename T>
  Status all_reduce(std::span<const T> input, std::span<T> output, const Reduction& reduction = {}) {
    WREATH_TRY(check_sizes("all_reduce", input.size(), output.size()));
    return all_reduce(input.data(), output.data(), input.size(), dtype_of<T>, reduction);
  }
  // Works in place.
  template <typename T>
  Status all_reduce(std::span<T> buffer, const Reduction& reduction = {}) {
    return all_reduce(buffer.data(), buffer.data(), buffer.size(), dtype_of<T>, reduction);
  }
  template <typename T>
  Status reduce_scatter(std::span<const T> input, std::span<T> output, const Reduction& reduction = {}) {
    WREATH_TRY(check_sizes("reduce_scatter", input.size(), output.size() * blocks()));
    return reduce_scatter(input.data(), output.data(), output.size(), dtype_of<T>, reduction);
  }
  template <typename T>
  Status all_gather(std::span<const T> input, std::span<T> output) {
    WREATH_TRY(check_sizes("all_gather", input.size() * blocks(), output.size()));
    return all_gather(input.data(), output.data(), input.size(), dtype_of<T>);
  }
  // Works in place: the root's elements replace everyone's.
  template <typename T>
  Status broadcast(std::span<T> buffer, Rank root) {
    return broadcast(buffer.data(), buffer.data(), buffer.size(), dtype_of<T>, root);
  }
  // `output` beside the root may be empty.
  template <typename T>
  Status reduce(std::span<const T> input, std::span<T> output, Rank root, const Reduction& reduction = {}) {
    if (rank() == root) WREATH_TRY(check_sizes("reduce", input.size(), output.size()));
    return reduce(input.data(), output.data(), input.size(), dtype_of<T>, root, reduction);
  }
  template <typename T>
  Status all_to_all(std::span<const T> input, std::span<T> output) {
    WREATH_TRY(check_sizes("all_to_all", input.size(), output.size()));
    WREATH_TRY(check_sizes("all_to_all", input.size() / blocks() * blocks(), input.size()));
    return all_to_all(input.data(), output.data(), input.size() / blocks(), dtype_of<T>);
  }
  // `output` beside the root may be empty.
  template <typename T>
  Status gather(std::span<const T> input, std::span<T> output, Rank root) {
    if (rank() == root) WREATH_TRY(check_sizes("gather", input.size() * blocks(), output.size()));
    return gather(input.data(), output.data(), input.size(), dtype_of<T>, root);
  }
  // `input` beside the root may be empty.
  template <typename T>
  Status scatter(std::span<const T> input, std::span<T> output, Rank root) {
    if (rank() == root) WREATH_TRY(check_sizes("scatter", input.size(), output.size() * blocks()));
    return scatter(input.data(), output.data(), output.size(), dtype_of<T>, root);
  }
  template <typename T>
  Status send(std::span<const T> input, Rank to) {
    return send(input.data(), input.size(), dtype_of<T>, to);
  }
  template <typename T>
  Status recv(std::span<T> output, Rank from) {
    return recv(output.data(), output.size(), dtype_of<T>, from);
  }

  // ---- other communicators out of this one; every rank (of shrink: every survivor) calls them ----

  // Makes one communicator for each `color`, its ranks in the order of `key`, then of rank. A rank with a negative
  // color takes part and gets an empty communicator (ranks() == 0). The options are this communicator's. An error of
  // one rank is an error of all.
  Result<Communicator> split(int color, int key = 0);
  // Makes a communicator of the same ranks, with calls of its own.
  Result<Communicator> duplicate();
  // After a failure, makes a new communicator of the survivors, in their order; this one stays failed. Either all
  // survivors get the same members, or all get an error. `timeout_ms` bounds the wait for ranks that live but do not
  // call it. Then the others go on without them, if they are more, and the ranks left out get PeerLost. A rank that
  // aborted or destroyed this communicator is no survivor. If a rank dies after the agreement, the new communicator
  // fails; call shrink on it. Without a failure the new communicator has the same ranks, and this one stays usable. See
  // docs/failures.md.
  Result<Communicator> shrink(std::int64_t timeout_ms = 60'000);
  // Does the same without the ranks in `without`. They may live or not and need not call it; all other ranks must name
  // the same ones.
  Result<Communicator> shrink(std::int64_t timeout_ms, std::span<const Rank> without);

  // Fails the communicator on this rank at once and tells the others. Wakes every waiter and returns within 1 s.
  // Afterwards nothing of this process, threads and network adapters, touches buffers of its operations. Returns
  // Timeout, which names what still does, where that cannot be reached in time. The operations then stay unfinished:
  // memory of wreath::allocate that they use is not freed even if the program frees it, and must not be written. Call
  // abort() again to wait on.
  Status abort();
  // Does the same as abort(), but this rank may still call shrink().
  Status revoke();
  // Returns the first error of this communicator, or success.
  Status error() const;

  // Says which transport links this rank to `peer` ("self" for itself), and why not a better one.
  std::string transport_to(int peer) const;
  // Says which algorithm, data lanes and tile a call of `bytes` bytes will use: "two_shot lanes=1 tile=256K
  // order=canonical". The path of small messages has "tile=small"; "executor=handwritten" follows if such a loop will
  // run it.
  std::string plan_for(Collective collective, std::size_t bytes) const;
  // Counts this rank's calls of `collective` that ended, since the communicator was made; sends and recvs count as
  // Exchange. Any thread may call it. With a pinned algorithm the sum over all ranks is a closed form: ring all_reduce
  // of S bytes moves 2 (n - 1) S.
  WireBytes wire_bytes(Collective collective) const noexcept;
  // Returns what this rank's links have counted, an entry for each transport that counts. It waits until no other
  // thread is inside a call.
  std::vector<WireCounts> wire_counts() const;

 private:
  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::size_t blocks() const noexcept { return ranks() > 0 ? static_cast<std::size_t>(ranks()) : 1; }
  Status check_sizes(std::string_view call, std::size_t input, std::size_t output);
  Status run(const Call& call, bool varying);
  Result<Work> start(const Call& call, bool varying);
  std::unique_ptr<Impl> impl_;
};

}  // namespace wreath
