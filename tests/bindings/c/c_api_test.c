// The test calls every function of the C API from C11, with two ranks or more (`wreath run -n 2 bindings_c_test`) or
// with one alone.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wreath/wreath.h"

static int failures = 0;

#define EXPECT(condition)                                                                                           \
  do {                                                                                                              \
    if (!(condition)) {                                                                                             \
      ++failures;                                                                                                   \
      fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, wreath_last_error()); \
    }                                                                                                               \
  } while (0)

#define EXPECT_CODE(code, call) EXPECT((call) == (code))
#define EXPECT_ERROR(code, words, call)                   \
  do {                                                    \
    EXPECT_CODE(code, call);                              \
    EXPECT(strstr(wreath_last_error(), (words)) != NULL); \
  } while (0)

enum { kCount = 1000, kMostRanks = 16 };

static int me, ranks;

static double sum_of_ranks(void) { return ranks * (ranks + 1) / 2.0; }

static void fill(float* values, size_t count, double value) {
  for (size_t i = 0; i < count; ++i) values[i] = (float)value;
}

static int all_are(const float* values, size_t count, double value) {
  for (size_t i = 0; i < count; ++i) {
    if (values[i] != (float)value) return 0;
  }
  return 1;
}

static void test_words(void) {
  EXPECT(strcmp(wreath_version(), "") != 0);
  EXPECT(strcmp(wreath_code_name(WREATH_OK), "ok") == 0);
  EXPECT(strcmp(wreath_code_name(WREATH_PEER_LOST), "peer lost") == 0);
  EXPECT(strcmp(wreath_code_name(99), "unknown code") == 0);
  EXPECT(wreath_code_exit(WREATH_OK) == 0 && wreath_code_exit(WREATH_PEER_LOST) == 3);
  EXPECT(wreath_dtype_size(WREATH_FLOAT64) == 8 && wreath_dtype_size(WREATH_FLOAT8_E5M2) == 1);
  EXPECT(wreath_dtype_size(-1) == 0 && wreath_dtype_size(WREATH_DTYPE_COUNT) == 0);
}

static void test_null_and_options(void) {
  wreath_communicator* none = NULL;
  const char* unknown[] = {"lane=2", NULL};
  const char* no_number[] = {"lanes=two", NULL};
  const char* no_value[] = {"lanes", NULL};
  const char* no_transport[] = {"transports=shm,pigeon", NULL};
  const char* fine[] = {"transports=shm,inproc", "tile_bytes=64K", "stall_ms=2000", "reproducible=0", NULL};
  EXPECT_ERROR(WREATH_INVALID_ARGUMENT, "communicator = null", wreath_barrier(NULL, NULL));
  EXPECT_ERROR(WREATH_INVALID_ARGUMENT, "communicator = null", wreath_communicator_from_environment(NULL, NULL));
  EXPECT_ERROR(WREATH_INVALID_ARGUMENT, "option 'lane' does not exist", wreath_communicator_local(1, unknown, &none));
  EXPECT_ERROR(WREATH_INVALID_ARGUMENT, "'lanes=two': must be a whole number",
               wreath_communicator_local(1, no_number, &none));
  EXPECT_ERROR(WREATH_INVALID_ARGUMENT, "must be name=value", wreath_communicator_local(1, no_value, &none));
  EXPECT_ERROR(WREATH_INVALID_ARGUMENT, "transport 'pigeon' does not exist",
               wreath_communicator_local(1, no_transport, &none));
  EXPECT(none == NULL);
  EXPECT(wreath_communicator_rank(NULL) == -1 && wreath_communicator_ranks(NULL) == -1);
  EXPECT(wreath_work_done(NULL) == 1);
  wreath_communicator_destroy(NULL);
  wreath_work_free(NULL);
  wreath_group_cancel(NULL);

  EXPECT_CODE(WREATH_OK, wreath_communicator_local(1, fine, &none));
  EXPECT(wreath_communicator_ranks(none) == 1);
  wreath_communicator_destroy(none);
}

static void test_unique_id(void) {
  wreath_unique_id id, same;
  char text[257];
  wreath_communicator* alone = NULL;
  EXPECT_CODE(WREATH_OK, wreath_unique_id_create(NULL, &id));
  EXPECT_CODE(WREATH_OK, wreath_unique_id_format(&id, text, sizeof text));
  EXPECT(strlen(text) == 256);
  EXPECT_ERROR(WREATH_INVALID_ARGUMENT, "size = 256", wreath_unique_id_format(&id, text, 256));
  EXPECT_CODE(WREATH_OK, wreath_unique_id_parse(text, &same));
  EXPECT(memcmp(&id, &same, sizeof id) == 0);
  EXPECT_CODE(WREATH_INVALID_ARGUMENT, wreath_unique_id_parse("not an id", &same));
  EXPECT_CODE(WREATH_OK, wreath_communicator_create(&id, 0, 1, NULL, &alone));
  wreath_communicator_destroy(alone);
  EXPECT_CODE(WREATH_OK, wreath_unique_id_create(NULL, &id));
  EXPECT_ERROR(WREATH_STARTUP_FAILED, "is not a rank of a job of 1 ranks",
               wreath_communicator_create(&id, 1, 1, NULL, &alone));
}

static void test_reductions(wreath_communicator* all) {
  float input[kCount], output[kCount], blocks[kMostRanks * kCount];
  fill(input, kCount, me + 1);
  EXPECT_CODE(WREATH_OK, wreath_all_reduce(all, input, output, kCount, WREATH_FLOAT32, WREATH_SUM, NULL));
  EXPECT(all_are(output, kCount, sum_of_ranks()));
  EXPECT_CODE(WREATH_OK, wreath_all_reduce(all, input, output, kCount, WREATH_FLOAT32, WREATH_MAX, NULL));
  EXPECT(all_are(output, kCount, ranks));
  EXPECT_CODE(WREATH_OK, wreath_reduce(all, input, output, kCount, WREATH_FLOAT32, WREATH_MIN, ranks - 1, NULL));
  EXPECT(me != ranks - 1 || all_are(output, kCount, 1));
  for (int rank = 0; rank < ranks; ++rank) fill(blocks + rank * kCount, kCount, (me + 1) * (rank + 1));
  EXPECT_CODE(WREATH_OK, wreath_reduce_scatter(all, blocks, output, kCount, WREATH_FLOAT32, WREATH_SUM, NULL));
  EXPECT(all_are(output, kCount, sum_of_ranks() * (me + 1)));

  wreath_call call = {.collective = WREATH_ALL_REDUCE, .dtype = WREATH_FLOAT32, .op = WREATH_PREMULTIPLIED_SUM};
  call.factor = 3;
  call.input = input;
  call.output = output;
  call.count = kCount;
  EXPECT_CODE(WREATH_OK, wreath_run(all, &call, NULL));
  EXPECT(all_are(output, kCount, 3 * sum_of_ranks()));
}

static void test_blocks(wreath_communicator* all) {
  float input[kMostRanks * kCount], output[kMostRanks * kCount];
  fill(input, kCount, me);
  EXPECT_CODE(WREATH_OK, wreath_all_gather(all, input, output, kCount, WREATH_FLOAT32, NULL));
  for (int rank = 0; rank < ranks; ++rank) EXPECT(all_are(output + rank * kCount, kCount, rank));
  EXPECT_CODE(WREATH_OK, wreath_broadcast(all, input, output, kCount, WREATH_FLOAT32, 0, NULL));
  EXPECT(all_are(output, kCount, 0));
  EXPECT_CODE(WREATH_OK, wreath_gather(all, input, output, kCount, WREATH_FLOAT32, 0, NULL));
  for (int rank = 0; rank < ranks && me == 0; ++rank) EXPECT(all_are(output + rank * kCount, kCount, rank));
  for (int rank = 0; rank < ranks; ++rank) fill(input + rank * kCount, kCount, 100 * me + rank);
  EXPECT_CODE(WREATH_OK, wreath_scatter(all, input, output, kCount, WREATH_FLOAT32, 0, NULL));
  EXPECT(all_are(output, kCount, me));
  EXPECT_CODE(WREATH_OK, wreath_all_to_all(all, input, output, kCount, WREATH_FLOAT32, NULL));
  for (int rank = 0; rank < ranks; ++rank) EXPECT(all_are(output + rank * kCount, kCount, 100 * rank + me));
  EXPECT_CODE(WREATH_OK, wreath_barrier(all, NULL));
}

// Rank r holds and gets r + 1 elements. Rank s sends s + d + 1 elements to rank d.
static void test_blocks_that_vary(wreath_communicator* all) {
  float input[kMostRanks * kMostRanks * 2], output[kMostRanks * kMostRanks * 2];
  size_t counts[kMostRanks], starts[kMostRanks], exchanged[kMostRanks];
  size_t total = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    counts[rank] = (size_t)rank + 1;
    starts[rank] = total;
    total += counts[rank];
    exchanged[rank] = (size_t)(rank + me) + 1;
  }
  const wreath_blocks blocks = {counts, NULL};
  const wreath_blocks displaced = {counts, starts};
  fill(input, sizeof input / sizeof *input, me + 1);
  EXPECT_CODE(WREATH_OK, wreath_all_gather_v(all, input, output, &displaced, WREATH_FLOAT32, NULL));
  for (int rank = 0; rank < ranks; ++rank) EXPECT(all_are(output + starts[rank], counts[rank], rank + 1));
  EXPECT_CODE(WREATH_OK, wreath_gather_v(all, input, output, &blocks, WREATH_FLOAT32, 0, NULL));
  EXPECT_CODE(WREATH_OK, wreath_scatter_v(all, input, &blocks, output, WREATH_FLOAT32, 0, NULL));
  EXPECT(all_are(output, counts[me], 1));
  EXPECT_CODE(WREATH_OK, wreath_reduce_scatter_v(all, input, &blocks, output, WREATH_FLOAT32, WREATH_SUM, NULL));
  EXPECT(all_are(output, counts[me], sum_of_ranks()));
  const wreath_blocks messages = {exchanged, NULL};
  EXPECT_CODE(WREATH_OK, wreath_all_to_all_v(all, input, &messages, output, &messages, WREATH_FLOAT32, NULL));
  for (size_t rank = 0, at = 0; rank < (size_t)ranks; at += exchanged[rank], ++rank) {
    EXPECT(all_are(output + at, exchanged[rank], (double)rank + 1));
  }
}

static void test_work(wreath_communicator* all) {
  float values[kCount];
  wreath_work* work = NULL;
  fill(values, kCount, 1);
  EXPECT_CODE(WREATH_OK, wreath_all_reduce(all, values, values, kCount, WREATH_FLOAT32, WREATH_SUM, &work));
  int code = WREATH_NOT_READY;
  while (code == WREATH_NOT_READY) code = wreath_work_wait(work, 1);
  EXPECT(code == WREATH_OK && wreath_work_done(work) == 1);
  EXPECT(all_are(values, kCount, ranks));
  wreath_work_free(work);

  if (ranks == 1) return;
  // Rank 1 sends only after the wait of rank 0 has run out.
  if (me == 0) {
    EXPECT_CODE(WREATH_OK, wreath_recv(all, values, kCount, WREATH_FLOAT32, 1, &work));
    EXPECT_CODE(WREATH_NOT_READY, wreath_work_wait(work, 20));
    EXPECT(wreath_work_done(work) == 0);
  }
  wreath_communicator* other = NULL;
  EXPECT_CODE(WREATH_OK, wreath_communicator_duplicate(all, &other));
  EXPECT_CODE(WREATH_OK, wreath_barrier(other, NULL));
  if (me == 1) EXPECT_CODE(WREATH_OK, wreath_send(all, values, kCount, WREATH_FLOAT32, 0, NULL));
  if (me == 0) {
    EXPECT_CODE(WREATH_OK, wreath_work_wait(work, -1));
    wreath_work_free(work);
  }
  wreath_communicator_destroy(other);
}

static void test_group(wreath_communicator* all) {
  int held = me, next = -1;
  wreath_group* group = NULL;
  wreath_work* work = NULL;
  EXPECT_CODE(WREATH_OK, wreath_group_begin(&group));
  EXPECT_CODE(WREATH_OK, wreath_send(all, &held, 1, WREATH_INT32, (me + 1) % ranks, NULL));
  EXPECT_CODE(WREATH_OK, wreath_recv(all, &next, 1, WREATH_INT32, (me + ranks - 1) % ranks, NULL));
  EXPECT_CODE(WREATH_OK, wreath_group_end(group, &work));
  EXPECT_CODE(WREATH_OK, wreath_work_wait(work, -1));
  wreath_work_free(work);
  EXPECT(next == (me + ranks - 1) % ranks);
  EXPECT_CODE(WREATH_OK, wreath_group_begin(&group));
  EXPECT_CODE(WREATH_OK, wreath_barrier(all, NULL));
  wreath_group_cancel(group);
  EXPECT_CODE(WREATH_OK, wreath_barrier(all, NULL));
}

static void test_memory(wreath_communicator* all) {
  void* data = NULL;
  const size_t count = 1 << 20;
  EXPECT_CODE(WREATH_OK, wreath_allocate(count * sizeof(float), &data));
  float* values = data;
  EXPECT(values[count - 1] == 0);
  fill(values, count, 2);
  EXPECT_CODE(WREATH_OK, wreath_all_reduce(all, values, values, count, WREATH_FLOAT32, WREATH_SUM, NULL));
  EXPECT(all_are(values, count, 2 * ranks));
  EXPECT_CODE(WREATH_OK, wreath_free(data));
  EXPECT_ERROR(WREATH_INVALID_ARGUMENT, "not from wreath_allocate", wreath_free(&data));
  EXPECT_CODE(WREATH_OK, wreath_free(NULL));
}

static void test_children(wreath_communicator* all) {
  wreath_communicator* child = NULL;
  char text[8];
  EXPECT_CODE(WREATH_OK, wreath_communicator_split(all, me % 2, -me, &child));
  EXPECT(wreath_communicator_ranks(child) == (ranks + 1 - me % 2) / 2);
  EXPECT_CODE(WREATH_OK, wreath_barrier(child, NULL));
  wreath_communicator_destroy(child);
  EXPECT_CODE(WREATH_OK, wreath_communicator_split(all, me == 0 ? 0 : -1, 0, &child));
  EXPECT(wreath_communicator_ranks(child) == (me == 0 ? 1 : 0));
  wreath_communicator_destroy(child);
  EXPECT_CODE(WREATH_OK, wreath_communicator_transport(all, me, text, sizeof text));
  EXPECT(strcmp(text, "self") == 0);
  EXPECT_CODE(WREATH_OK, wreath_communicator_transport(all, me, text, 3));
  EXPECT(strcmp(text, "se") == 0);
}

// The mistake of one rank fails the communicator on all ranks. The living ranks go on in a communicator made by a
// shrink.
static void test_failure(wreath_communicator* all) {
  float values[kCount] = {0};
  wreath_communicator *doomed = NULL, *next = NULL;
  EXPECT_CODE(WREATH_OK, wreath_communicator_duplicate(all, &doomed));
  EXPECT_CODE(WREATH_OK, wreath_communicator_error(all));
  const int dtype = me == 0 ? 99 : WREATH_FLOAT32;
  EXPECT_CODE(WREATH_INVALID_ARGUMENT, wreath_all_reduce(doomed, values, values, kCount, dtype, WREATH_SUM, NULL));
  EXPECT_ERROR(WREATH_INVALID_ARGUMENT, "dtype = 99", wreath_communicator_error(doomed));
  EXPECT(wreath_last_error_rank() == 0);
  EXPECT_CODE(WREATH_OK, wreath_communicator_shrink(doomed, 10000, &next));
  EXPECT(wreath_communicator_ranks(next) == ranks && wreath_communicator_rank(next) == me);
  EXPECT_CODE(WREATH_OK, wreath_barrier(next, NULL));
  wreath_communicator_destroy(doomed);
  wreath_communicator_destroy(next);
  EXPECT_CODE(WREATH_OK, wreath_communicator_split(all, me, 0, &next));
  EXPECT_CODE(WREATH_OK, wreath_communicator_abort(next));
  EXPECT_CODE(WREATH_ABORTED, wreath_barrier(next, NULL));
  wreath_communicator_destroy(next);
}

int main(void) {
  test_words();
  test_null_and_options();
  test_unique_id();
  wreath_communicator* all = NULL;
  const char* options[] = {"stall_ms=20000", "arrival_ms=20000", NULL};
  const int code = wreath_communicator_from_environment(options, &all);
  if (code != WREATH_OK) {
    fprintf(stderr, "%s: %s\n", wreath_code_name(code), wreath_last_error());
    return wreath_code_exit(code);
  }
  me = wreath_communicator_rank(all);
  ranks = wreath_communicator_ranks(all);
  EXPECT(ranks <= kMostRanks);
  test_reductions(all);
  test_blocks(all);
  test_blocks_that_vary(all);
  test_work(all);
  test_group(all);
  test_memory(all);
  test_children(all);
  test_failure(all);
  wreath_communicator_destroy(all);
  printf("rank %d of %d: %d failures\n", me, ranks, failures);
  return failures == 0 ? 0 : 1;
}
