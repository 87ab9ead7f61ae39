// Communicator: the ranks that act together. Start here.
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
#include "wreath/work.hpp"

namespace wreath {

// Milliseconds. Each ends in an error that names rank, operation and reason.
struct Timeouts {
  std::int64_t bootstrap_ms = 60'000;     // all ranks must have met
  std::int64_t late_warning_ms = 10'000;  // a live rank has not entered a call: warn
  std::int64_t arrival_ms = 600'000;      // ... : fail
  std::int64_t stall_ms = 30'000;         // all entered, no byte moved: fail
};

// Everything has a working default. The fields that shape schedules (reproducible, check_wires, tuning, overrides,
// debug.first_sequence) must be equal on all ranks: rank 0's are broadcast at start and win. A tuning is broadcast as
// the choices in it, so that no other rank needs the file.
struct CommunicatorOptions {
  // The names of the transports that may be used; empty: all of this build.
  std::vector<std::string> transports;
  // The same inputs give the same bits, whatever the size, the transport or the lanes.
  bool reproducible = true;
  // Messages over wires carry a checksum: bytes that were altered on their way end in PeerLost, and not in a result;
  // false: WREATH_CHECK.
  bool check_wires = false;
  // A file of `wreath tune` (tuning.hpp), which rank 0 reads; "none": only the library's own rules. Empty:
  // WREATH_TUNING, else this machine's in the user's cache, where a file that cannot be used is passed over with a
  // warning.
  std::string tuning;
  // The device of this rank's calls on device memory: "cuda:N", "host" or "none", as Device::name() says; in
  // create_local a list, of which rank r gets the one at r modulo its length. Empty: WREATH_DEVICE, else the CUDA
  // device that is current in this thread, where the program uses CUDA.
  std::string device;
  Timeouts timeouts;
  Overrides overrides;
  DebugOptions debug;
};

// Bytes of user data that a rank's calls moved between ranks, without headers: what an algorithm costs, whatever was
// asked of it. `sent`: of all messages that the rank handed to a transport, be it that the peer reads them in place,
// out of shared memory or from a socket. `loaded`: small calls over shared memory (up to 16 KiB) have no messages;
// there it is what the rank loaded from its peers' areas. Over all ranks sent + loaded is what left one rank for
// another.
struct WireBytes {
  std::uint64_t sent = 0;
  std::uint64_t loaded = 0;
};

// What one rank holds of a communicator. Move-only.
//
// Any thread may use it, one call at a time: two at once get InvalidUsage. abort(), revoke() and error() may
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
  // The same, given up (an error) when the descriptor `interrupt` becomes readable: an eventfd, a pipe. It remains the
  // caller's. Where this rank has come to the meeting, the others' start fails, too.
  static Result<Communicator> create(const UniqueId& id, int rank, int ranks, const CommunicatorOptions& options,
                                     int interrupt);
  // The rank that a launcher started this process as (environment.hpp); alone without one.
  static Result<Communicator> create_from_environment(const CommunicatorOptions& = {});

  int rank() const noexcept;
  int ranks() const noexcept;

  // ---- collectives: every rank makes the same calls in the same order ----
  //
  // `count` is in elements of `dtype`: of the whole vector, or where blocks of ranks move (reduce_scatter, all_gather,
  // all_to_all, gather, scatter) of one block; the other buffer then holds ranks() blocks in rank order. The
  // v-forms take the counts of all blocks, equal on all ranks but for all_to_all_v. A call returns when this rank's
  // output is complete and its input may be reused; the _async form returns at once (with 128 calls in flight: once the
  // first is over), and the buffers belong to the operation until the Work is done. In place is output == input, and
  // where one buffer is a block of the other: output + rank() * count == input (all_gather, gather at its root),
  // output == input + rank() * count (reduce_scatter, scatter at its root). Any other overlap is InvalidArgument, as is
  // any in place all_to_all. Buffers a rank does not use (the output of reduce beside its root, ...) may be null.
  // Ranks whose calls differ in anything that all must give alike get Mismatch: counts of all_to_all_v, gather_v and
  // scatter_v are not compared, but whoever gets a block of another size than it was told does. A rank that only writes
  // in a call (the root of broadcast, ...) may be done with it before that is known: then the error comes with the
  // first message between two ranks that differ, after some 16 calls at most, and names the first call that differed.

  // output[i] = input[i] of rank 0 op ... op of rank n-1, on every rank.
  Status all_reduce(const void* input, void* output, std::size_t count, DataType dtype, const Reduction& = {});
  Result<Work> all_reduce_async(const void* input, void* output, std::size_t count, DataType dtype,
                                const Reduction& = {});
  // The same sums, of which rank r gets block r.
  Status reduce_scatter(const void* input, void* output, std::size_t count, DataType dtype, const Reduction& = {});
  Result<Work> reduce_scatter_async(const void* input, void* output, std::size_t count, DataType dtype,
                                    const Reduction& = {});
  Status reduce_scatter_v(const void* input, const Blocks& blocks, void* output, DataType dtype, const Reduction& = {});
  Result<Work> reduce_scatter_v_async(const void* input, const Blocks& blocks, void* output, DataType dtype,
                                      const Reduction& = {});
  // Every rank gets every rank's block.
  Status all_gather(const void* input, void* output, std::size_t count, DataType dtype);
  Result<Work> all_gather_async(const void* input, void* output, std::size_t count, DataType dtype);
  Status all_gather_v(const void* input, void* output, const Blocks& blocks, DataType dtype);
  Result<Work> all_gather_v_async(const void* input, void* output, const Blocks& blocks, DataType dtype);
  // Every rank gets the root's vector.
  Status broadcast(const void* input, void* output, std::size_t count, DataType dtype, Rank root);
  Result<Work> broadcast_async(const void* input, void* output, std::size_t count, DataType dtype, Rank root);
  // As all_reduce, at the root alone.
  Status reduce(const void* input, void* output, std::size_t count, DataType dtype, Rank root, const Reduction& = {});
  Result<Work> reduce_async(const void* input, void* output, std::size_t count, DataType dtype, Rank root,
                            const Reduction& = {});
  // Block d of rank s becomes block s of rank d.
  Status all_to_all(const void* input, void* output, std::size_t count, DataType dtype);
  Result<Work> all_to_all_async(const void* input, void* output, std::size_t count, DataType dtype);
  // `sent.counts[d]` elements go to rank d, `received.counts[s]` come from rank s, which must say the same.
  Status all_to_all_v(const void* input, const Blocks& sent, void* output, const Blocks& received, DataType dtype);
  Result<Work> all_to_all_v_async(const void* input, const Blocks& sent, void* output, const Blocks& received,
                                  DataType dtype);
  // The root gets every rank's block.
  Status gather(const void* input, void* output, std::size_t count, DataType dtype, Rank root);
  Result<Work> gather_async(const void* input, void* output, std::size_t count, DataType dtype, Rank root);
  Status gather_v(const void* input, void* output, const Blocks& blocks, DataType dtype, Rank root);
  Result<Work> gather_v_async(const void* input, void* output, const Blocks& blocks, DataType dtype, Rank root);
  // Rank r gets block r of the root.
  Status scatter(const void* input, void* output, std::size_t count, DataType dtype, Rank root);
  Result<Work> scatter_async(const void* input, void* output, std::size_t count, DataType dtype, Rank root);
  Status scatter_v(const void* input, const Blocks& blocks, void* output, DataType dtype, Rank root);
  Result<Work> scatter_v_async(const void* input, const Blocks& blocks, void* output, DataType dtype, Rank root);
  // Returns once every rank has called it.
  Status barrier();
  Result<Work> barrier_async();
  // Any of them, described as a value.
  Status run(const Call& call);
  Result<Work> start(const Call& call);

  // ---- one rank to another ----
  //
  // The k-th send from rank a to rank b matches the k-th recv of b from a; both name the same count and dtype. Calls of
  // a communicator run in the order they were made, so ranks that send to each other do it in a Group (group.hpp):
  // inside one, sends and recvs run together, in any order. A rank sends to itself inside a group only. With a
  // `stream` they begin once what it holds is over; those of a group then have one stream.
  Status send(const void* input, std::size_t count, DataType dtype, Rank to);
  Result<Work> send_async(const void* input, std::size_t count, DataType dtype, Rank to, Stream* stream = nullptr);
  Status recv(void* output, std::size_t count, DataType dtype, Rank from);
  Result<Work> recv_async(void* output, std::size_t count, DataType dtype, Rank from, Stream* stream = nullptr);

  // ---- the same over spans: `count` follows from them ----

  template <typename T>
  Status all_reduce(std::span<const T> input, std::span<T> output, const Reduction& reduction = {}) {
    WREATH_TRY(check_sizes("all_reduce", input.size(), output.size()));
    return all_reduce(input.data(), output.data(), input.size(), dtype_of<T>, reduction);
  }
  // In place.
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
  // In place: the root's elements replace everyone's.
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

  // One communicator for each `color`, its ranks in the order of `key`, then of rank. A negative color takes part and
  // gets none: an empty communicator (ranks() == 0). Options are this one's. An error of one rank is an error of all.
  Result<Communicator> split(int color, int key = 0);
  // The same ranks again, with calls of their own.
  Result<Communicator> duplicate();
  // After a failure: the survivors, in their order, as a new communicator, usable while this one stays failed. Either
  // all survivors get the same members, or all an error. `timeout_ms` bounds the wait for ranks that live but do not
  // call it: then the others go on without them, if they are more, and these get PeerLost. A rank that aborted or
  // destroyed this communicator is none of the survivors. Who dies after the agreement fails the new communicator:
  // shrink that. Without a failure: the same ranks, and this communicator stays usable. See docs/architecture.md.
  Result<Communicator> shrink(std::int64_t timeout_ms = 60'000);
  // The same without the ranks in `without`, who live or not and need not call it; all others give the same ones.
  Result<Communicator> shrink(std::int64_t timeout_ms, std::span<const Rank> without);

  // Fails the communicator on this rank at once and tells the others. Wakes every waiter; returns
  // within 1 s; afterwards no thread of this process touches buffers of its operations.
  Status abort();
  // As abort, but this rank remains among those who can shrink.
  Status revoke();
  // The first error of this communicator, or success.
  Status error() const;

  // Which transport links this rank to `peer` ("self" for itself), and why not a better one.
  std::string transport_to(int peer) const;
  // The algorithm, data lanes and tile that a call of `bytes` bytes will use: "two_shot lanes=1 tile=256K
  // order=canonical"; "tile=small" for the path of small messages; with "executor=handwritten" where such a loop will
  // run it.
  std::string plan_for(Collective collective, std::size_t bytes) const;
  // Of this rank's calls of `collective` that ended, since the communicator was made; sends and recvs are Exchange. Any
  // thread. With a pinned algorithm the sum over all ranks is a closed form: ring all_reduce of S bytes moves 2 (n - 1)
  // S.
  WireBytes wire_bytes(Collective collective) const noexcept;

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
