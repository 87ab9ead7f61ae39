// Declares Wreath's C API: the same library for programs in C, and for languages that call C.
//
// Every function that can fail returns an enum wreath_code. After any other code than WREATH_OK, wreath_last_error()
// of the same thread says what failed and where. Handles are opaque; the function named beside a handle frees it, and
// accepts null. Enumerators are those of the C++ API (types.hpp, result.hpp). For everything that is not said here,
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
  // The caller's value is wrong; the text names the argument and its value.
  WREATH_INVALID_ARGUMENT = 1,
  // The call is not allowed now (two at once, after a fork).
  WREATH_INVALID_USAGE = 2,
  // A rank's process or host is gone.
  WREATH_PEER_LOST = 3,
  // A clock ran out: start-up, arrival or stall.
  WREATH_TIMEOUT = 4,
  // The ranks disagree on a call.
  WREATH_MISMATCH = 5,
  // The ranks could not meet at start-up.
  WREATH_STARTUP_FAILED = 6,
  // The communicator was aborted, here or on another rank.
  WREATH_ABORTED = 7,
  // A wait ended before the work did; nothing is lost.
  WREATH_NOT_READY = 8,
  // This machine or build lacks what the call needs.
  WREATH_UNAVAILABLE = 9,
  // The operating system refused a resource.
  WREATH_SYSTEM = 10
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

// Returns the library's version, such as "0.1.0".
const char* wreath_version(void);
// Returns the text of this thread's last error; "" at first. The text is valid until this thread's next failure.
const char* wreath_last_error(void);
// Returns the rank at fault in this thread's last error, or -1.
int wreath_last_error_rank(void);
// Returns the words for a code, such as "peer lost"; "ok" for WREATH_OK.
const char* wreath_code_name(int code);
// Returns the exit code of a program that ends with this code (docs/formats.md).
int wreath_code_exit(int code);
// Returns the bytes of an element, or 0 where the number is no dtype.
size_t wreath_dtype_size(int dtype);

// ---- the meeting of ranks ----

// Holds opaque bytes; any process that has them may join.
typedef struct wreath_unique_id {
  unsigned char bytes[128];
} wreath_unique_id;

// Makes an id. `address` is an IP of this host, so that other hosts can join, or null.
int wreath_unique_id_create(const char* address, wreath_unique_id* id);
// Writes 256 hexadecimal digits and an end; `size` is 257 at least.
int wreath_unique_id_format(const wreath_unique_id* id, char* text, size_t size);
int wreath_unique_id_parse(const char* text, wreath_unique_id* id);

// `options` holds "name=value" texts with a null at the end, or is null. Names are transports (shm,tcp), algorithm,
// executor, lanes, tile_bytes (64K), reproducible (1, 0), check_wires (1, 0), slot_count and buffer_bytes. Further
// names are single_copy_bytes (a size, or auto), exchange_rounds, faults, trace, tuning, bootstrap_ms, late_warning_ms,
// arrival_ms and stall_ms.
//
// Makes the rank that a launcher started this process as; without a launcher this process is alone.
int wreath_communicator_from_environment(const char* const* options, wreath_communicator** communicator);
// Makes rank `rank` of `ranks`. Blocks until all have met.
int wreath_communicator_create(const wreath_unique_id* id, int rank, int ranks, const char* const* options,
                               wreath_communicator** communicator);
// Makes all ranks for threads of one program: `communicators` is an array of `ranks` handles.
int wreath_communicator_local(int ranks, const char* const* options, wreath_communicator** communicators);
// Waits up to 5 s for calls in flight, then aborts them.
void wreath_communicator_destroy(wreath_communicator* communicator);

// ---- a communicator ----

// Returns this rank's number, or -1 for null.
int wreath_communicator_rank(const wreath_communicator* communicator);
// Returns the number of ranks, or -1 for null; 0 for a rank without a color in wreath_communicator_split.
int wreath_communicator_ranks(const wreath_communicator* communicator);
// Returns the communicator's first error as a code and text, or WREATH_OK. Any thread may call it at any time.
int wreath_communicator_error(const wreath_communicator* communicator);
// Fails the communicator on this rank at once, and tells the others. Any thread may call it at any time.
int wreath_communicator_abort(wreath_communicator* communicator);
// Makes a new handle for the ranks that gave the same color.
int wreath_communicator_split(wreath_communicator* parent, int color, int key, wreath_communicator** child);
int wreath_communicator_duplicate(wreath_communicator* parent, wreath_communicator** child);
// Makes, after a failure, a communicator of the ranks that live. timeout_ms limits the wait for ranks that live but
// do not call it.
int wreath_communicator_shrink(wreath_communicator* parent, int64_t timeout_ms, wreath_communicator** child);
// Writes what links this rank to `peer`, cut to `size` bytes with the end.
int wreath_communicator_transport(const wreath_communicator* communicator, int peer, char* text, size_t size);

// ---- collectives ----
//
// With `work` null a function returns when its call is over. Else it begins the call and stores a handle in `work`,
// which wreath_work_free takes. Buffers belong to the call until the work is done. Counts are elements.

// Describes blocks that differ in size, one entry a rank in each array. With `displacements` null the blocks follow
// each other.
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

// Describes any of these calls as a value; a field that a collective does not use is 0.
typedef struct wreath_call {
  int collective;
  int dtype;
  int op;
  int root;
  // Holds this rank's factor of WREATH_PREMULTIPLIED_SUM for floating dtypes.
  double factor;
  // Holds this rank's factor of WREATH_PREMULTIPLIED_SUM for integers.
  int64_t integer_factor;
  const void* input;
  void* output;
  size_t count;
  // Describes the blocks of the v-forms, which use them instead of count. With null counts the call is no v-form.
  wreath_blocks input_blocks;
  wreath_blocks output_blocks;
} wreath_call;

int wreath_run(wreath_communicator* communicator, const wreath_call* call, wreath_work** work);

// ---- one rank to another; ranks that send to each other do it in a group ----

int wreath_send(wreath_communicator* communicator, const void* input, size_t count, int dtype, int to,
                wreath_work** work);
int wreath_recv(wreath_communicator* communicator, void* output, size_t count, int dtype, int from, wreath_work** work);

// ---- work in flight ----

// Waits for the work. Returns WREATH_NOT_READY after timeout_ms, which harms nothing; below 0 the communicator's own
// clocks end the wait.
int wreath_work_wait(wreath_work* work, int64_t timeout_ms);
// Returns 1 once the work is over, successfully or not; else 0. Never blocks.
int wreath_work_done(const wreath_work* work);
// Frees the handle and waits for nothing: the call goes on, and its buffers must live until it is over.
void wreath_work_free(wreath_work* work);

// ---- calls launched as one, by one thread ----

// Begins a group: from here, calls of this thread are kept until the end of the outermost group.
int wreath_group_begin(wreath_group** group);
// Begins all calls of the group and frees the handle. With `work` null it waits for them.
int wreath_group_end(wreath_group* group, wreath_work** work);
// Frees the handle; none of the group's calls begins.
void wreath_group_cancel(wreath_group* group);

// ---- memory that ranks of this host map, and network adapters read and write ----

int wreath_allocate(size_t bytes, void** data);
// Frees memory that wreath_allocate gave; null is allowed. Works that use the memory end as if it were there still.
int wreath_free(void* data);

// ---- memory of GPUs ----

// Waits until the work that the program's `stream` (a cudaStream_t; null for the default one) holds is over. Programs
// call it before calls, which take memory of a CUDA device like any other and begin at once. `data` says which device
// the stream is of; null means the current one. Fails with WREATH_UNAVAILABLE where there is no CUDA. Fails with
// WREATH_INVALID_ARGUMENT where `data` is not memory of one of its devices.
int wreath_await_cuda(const void* data, void* stream);

#ifdef __cplusplus
}
#endif
