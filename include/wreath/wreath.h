// Wreath's C API: the same library for programs in C, and for languages that call C.
//
// Every function that can fail returns an enum wreath_code; after another than WREATH_OK, wreath_last_error() of the
// same thread says what and where. Handles are opaque and freed by the function named beside them; null is allowed
// there. Enumerators are those of the C++ API (types.hpp, result.hpp), and so is everything that is not said here:
// communicator.hpp and group.hpp are the reference. Nothing throws, prints or ends the program.
//
//   wreath_communicator* all;
//   if (wreath_communicator_from_environment(NULL, &all) != WREATH_OK) return fail(wreath_last_error());
//   wreath_all_reduce(all, values, values, 1000, WREATH_FLOAT32, WREATH_SUM, NULL);
//   wreath_communicator_destroy(all);
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum wreath_code {
  WREATH_OK = 0,
  WREATH_INVALID_ARGUMENT = 1,  // the caller's value is wrong; the text names the argument and its value
  WREATH_INVALID_USAGE = 2,     // not allowed now (two calls at once, after a fork)
  WREATH_PEER_LOST = 3,         // a rank's process or host is gone
  WREATH_TIMEOUT = 4,           // a clock ran out: start-up, arrival or stall
  WREATH_MISMATCH = 5,          // ranks disagree on a call
  WREATH_STARTUP_FAILED = 6,    // the ranks could not be brought together
  WREATH_ABORTED = 7,           // aborted, here or on another rank
  WREATH_NOT_READY = 8,         // a wait ended before the work did; nothing is lost
  WREATH_UNAVAILABLE = 9,       // this machine or build lacks it
  WREATH_SYSTEM = 10            // the operating system refused
};

enum wreath_dtype {
  WREATH_INT8,
  WREATH_UINT8,
  WREATH_INT32,
  WREATH_UINT32,
  WREATH_INT64,
  WREATH_UINT64,
  WREATH_FLOAT16,
  WREATH_FLOAT32,
  WREATH_FLOAT64,
  WREATH_BFLOAT16,
  WREATH_FLOAT8_E4M3,
  WREATH_FLOAT8_E5M2,
  WREATH_DTYPE_COUNT  // none itself
};

enum wreath_op { WREATH_SUM, WREATH_PROD, WREATH_MIN, WREATH_MAX, WREATH_AVG, WREATH_PREMULTIPLIED_SUM };

enum wreath_collective {
  WREATH_ALL_REDUCE,
  WREATH_REDUCE_SCATTER,
  WREATH_ALL_GATHER,
  WREATH_BROADCAST,
  WREATH_REDUCE,
  WREATH_ALL_TO_ALL,
  WREATH_GATHER,
  WREATH_SCATTER,
  WREATH_BARRIER
};

typedef struct wreath_communicator wreath_communicator;
typedef struct wreath_work wreath_work;
typedef struct wreath_group wreath_group;

// ---- the library, and errors ----

// "0.1.0".
const char* wreath_version(void);
// What went wrong last on this thread; "" at first. Valid until this thread's next failure.
const char* wreath_last_error(void);
// The rank at fault in it, or -1.
int wreath_last_error_rank(void);
// "peer lost"; "ok" for WREATH_OK.
const char* wreath_code_name(int code);
// The exit code of a program that ends with it (docs/formats.md).
int wreath_code_exit(int code);
// Bytes of an element, or 0 for what is no dtype.
size_t wreath_dtype_size(int dtype);

// ---- how ranks meet ----

// Opaque; whoever holds it may join.
typedef struct wreath_unique_id {
  unsigned char bytes[128];
} wreath_unique_id;

// `address`: an IP of this host, so that other hosts can join, or null.
int wreath_unique_id_create(const char* address, wreath_unique_id* id);
// 256 hexadecimal digits and an end: `size` is 257 at least.
int wreath_unique_id_format(const wreath_unique_id* id, char* text, size_t size);
int wreath_unique_id_parse(const char* text, wreath_unique_id* id);

// `options`: "name=value" texts with a null at the end, or null. Names: transports (shm,tcp), algorithm, executor,
// lanes, tile_bytes (64K), reproducible (1, 0), check_wires (1, 0), slot_count, buffer_bytes, single_copy_bytes (a
// size, or auto), exchange_rounds, faults, trace, tuning, bootstrap_ms, late_warning_ms, arrival_ms, stall_ms.
//
// The rank that a launcher started this process as; alone without one.
int wreath_communicator_from_environment(const char* const* options, wreath_communicator** communicator);
// Rank `rank` of `ranks`. Blocks until all have met.
int wreath_communicator_create(const wreath_unique_id* id, int rank, int ranks, const char* const* options,
                               wreath_communicator** communicator);
// For threads of one program: `communicators` is an array of `ranks` handles.
int wreath_communicator_local(int ranks, const char* const* options, wreath_communicator** communicators);
// Waits up to 5 s for calls in flight, then aborts them.
void wreath_communicator_destroy(wreath_communicator* communicator);

// ---- a communicator ----

// -1 for null; ranks is 0 for a rank without a color in wreath_communicator_split.
int wreath_communicator_rank(const wreath_communicator* communicator);
int wreath_communicator_ranks(const wreath_communicator* communicator);
// Its first error as a code and text, or WREATH_OK. From any thread at any time.
int wreath_communicator_error(const wreath_communicator* communicator);
// Fails it on this rank at once, and tells the others. From any thread at any time.
int wreath_communicator_abort(wreath_communicator* communicator);
// A new handle for the ranks that gave the same color.
int wreath_communicator_split(wreath_communicator* parent, int color, int key, wreath_communicator** child);
int wreath_communicator_duplicate(wreath_communicator* parent, wreath_communicator** child);
// After a failure: those that live. timeout_ms: the wait for ranks that live but do not call it.
int wreath_communicator_shrink(wreath_communicator* parent, int64_t timeout_ms, wreath_communicator** child);
// What links this rank to `peer`, cut to `size` bytes with the end.
int wreath_communicator_transport(const wreath_communicator* communicator, int peer, char* text, size_t size);

// ---- collectives ----
//
// `work` null: returns when the call is over. Else it begins the call and puts a handle there, which
// wreath_work_free takes; buffers belong to the call until the work is done. Counts are elements.

// Blocks that differ in size: an entry a rank each. `displacements` null: one after the other.
typedef struct wreath_blocks {
  const size_t* counts;
  const size_t* displacements;
} wreath_blocks;

int wreath_all_reduce(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype,
                      int op, wreath_work** work);
int wreath_reduce_scatter(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype,
                          int op, wreath_work** work);
int wreath_reduce_scatter_v(wreath_communicator* communicator, const void* input, const wreath_blocks* blocks,
                            void* output, int dtype, int op, wreath_work** work);
int wreath_all_gather(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype,
                      wreath_work** work);
int wreath_all_gather_v(wreath_communicator* communicator, const void* input, void* output, const wreath_blocks* blocks,
                        int dtype, wreath_work** work);
int wreath_broadcast(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype,
                     int root, wreath_work** work);
int wreath_reduce(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype, int op,
                  int root, wreath_work** work);
int wreath_all_to_all(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype,
                      wreath_work** work);
int wreath_all_to_all_v(wreath_communicator* communicator, const void* input, const wreath_blocks* sent, void* output,
                        const wreath_blocks* received, int dtype, wreath_work** work);
int wreath_gather(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype, int root,
                  wreath_work** work);
int wreath_gather_v(wreath_communicator* communicator, const void* input, void* output, const wreath_blocks* blocks,
                    int dtype, int root, wreath_work** work);
int wreath_scatter(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype,
                   int root, wreath_work** work);
int wreath_scatter_v(wreath_communicator* communicator, const void* input, const wreath_blocks* blocks, void* output,
                     int dtype, int root, wreath_work** work);
int wreath_barrier(wreath_communicator* communicator, wreath_work** work);

// Any of them as a value; what a collective does not use is 0.
typedef struct wreath_call {
  int collective;
  int dtype;
  int op;
  int root;
  double factor;           // WREATH_PREMULTIPLIED_SUM: this rank's, for floating dtypes ...
  int64_t integer_factor;  // ... and for integers
  const void* input;
  void* output;
  size_t count;
  wreath_blocks input_blocks;  // the v-forms, instead of count; null counts: no v-form
  wreath_blocks output_blocks;
} wreath_call;

int wreath_run(wreath_communicator* communicator, const wreath_call* call, wreath_work** work);

// ---- one rank to another; ranks that send to each other do it in a group ----

int wreath_send(wreath_communicator* communicator, const void* input, size_t count, int dtype, int to,
                wreath_work** work);
int wreath_recv(wreath_communicator* communicator, void* output, size_t count, int dtype, int from, wreath_work** work);

// ---- work in flight ----

// WREATH_NOT_READY after timeout_ms, which harms nothing; below 0: the communicator's own clocks end it.
int wreath_work_wait(wreath_work* work, int64_t timeout_ms);
// 1 once it is over, successfully or not; else 0. Never blocks.
int wreath_work_done(const wreath_work* work);
// Waits for nothing: the call goes on, and its buffers must live until it is over.
void wreath_work_free(wreath_work* work);

// ---- calls launched as one, by one thread ----

// From here, calls of this thread are kept until the end of the outermost group.
int wreath_group_begin(wreath_group** group);
// Begins them all and frees the handle. `work` null: waits for them.
int wreath_group_end(wreath_group* group, wreath_work** work);
// Frees the handle; none of its calls begins.
void wreath_group_cancel(wreath_group* group);

// ---- memory that peers on this host map ----

int wreath_allocate(size_t bytes, void** data);
// What wreath_allocate gave; null is allowed. Works that use it end as if it were there still.
int wreath_free(void* data);

// ---- memory of GPUs ----

// Calls take memory of a CUDA device like any other, and begin at once. Before them: waits until what the program's
// `stream` (a cudaStream_t; null: the default one) holds is over. `data`: of which device; null: of the current one.
// WREATH_UNAVAILABLE where there is no CUDA, WREATH_INVALID_ARGUMENT where `data` is not memory of one of its devices.
int wreath_await_cuda(const void* data, void* stream);

#ifdef __cplusplus
}
#endif
