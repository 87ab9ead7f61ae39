// Tests that take many communicators or a program of their own: `life_test abort|churn|add|apart [COUNT]`.
//
// `abort` stops a peer in the middle of calls, and ncclCommAbort returns within a second, COUNT times. `churn` makes
// and destroys COUNT communicators, and nothing grows. `add` lets two processes add; tests of settings run it. `apart`
// does the same with different values of NCCL_HOSTID.
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bindings/nccl/harness.h"

enum { kElements = 1 << 18 };

// The functions below are for `abort`.

static void* call_until_error(void* argument) {
  float* data = calloc(kElements, sizeof *data);
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess) result = ncclAllReduce(data, data, kElements, ncclFloat, ncclMax, argument, NULL);
  free(data);
  return (void*)(size_t)result;
}

static void victim(ncclUniqueId id) {
  ncclComm_t comm = NULL;
  EXPECT_OK(ncclCommInitRank(&comm, 2, id, 1));
  call_until_error(comm);
}

// Returns the milliseconds that the abort took, or -1 if something else went wrong.
static long long abort_beside_stopped(ncclUniqueId id, pid_t peer, int round) {
  ncclComm_t comm = NULL;
  pthread_t caller;
  void* result = NULL;
  EXPECT_OK(ncclCommInitRank(&comm, 2, id, 0));
  pthread_create(&caller, NULL, call_until_error, comm);
  usleep((unsigned)(1000 + 317 * (round % 20)));
  kill(peer, SIGSTOP);
  usleep(5000);
  const long long begun = now_ms();
  EXPECT_OK(ncclCommAbort(comm));
  const long long took = now_ms() - begun;
  pthread_join(caller, &result);
  EXPECT((ncclResult_t)(size_t)result != ncclSuccess);
  return failures() == 0 ? took : -1;
}

// Rank 0 is also a process of its own: the test's process never uses the library, and so it may fork.
static int abort_round(int round) {
  int to_victim[2];
  int status = 1;
  if (pipe(to_victim) != 0) return 1;
  const pid_t peer = fork();
  if (peer == 0) {
    ncclUniqueId id;
    EXPECT(read(to_victim[0], &id, sizeof id) == sizeof id);
    victim(id);
    _exit(0);
  }
  const pid_t first = fork();
  if (first == 0) {
    ncclUniqueId id;
    EXPECT_OK(ncclGetUniqueId(&id));
    EXPECT(write(to_victim[1], &id, sizeof id) == sizeof id);
    const long long took = abort_beside_stopped(id, peer, round);
    if (took < 0 || took >= 1000) fprintf(stderr, "round %d: abort took %lld ms\n", round, took);
    _exit(took < 0 || took >= 1000);
  }
  waitpid(first, &status, 0);
  kill(peer, SIGKILL);
  waitpid(peer, NULL, 0);
  close(to_victim[0]);
  close(to_victim[1]);
  return status != 0;
}

static int test_abort(int count) {
  int failed = 0;
  for (int round = 0; round < count; ++round) failed += abort_round(round);
  printf("%d of %d aborts beside a stopped peer were in time\n", count - failed, count);
  return failed != 0;
}

// The functions below are for `churn`.

typedef struct {
  long kib;
  long threads;
  long descriptors;
} Use;

// Returns the bytes that the program has not freed. Only a sanitizer has this function; it keeps freed memory for a
// while.
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));  // NOLINT: the sanitizers' name

static Use used_now(void) {
  Use use = {0};
  char line[256];
  FILE* status = fopen("/proc/self/status", "r");
  while (status != NULL && fgets(line, sizeof line, status) != NULL) {
    sscanf(line, "VmRSS: %ld", &use.kib);
    sscanf(line, "Threads: %ld", &use.threads);
  }
  if (status != NULL) fclose(status);
  if (__sanitizer_get_current_allocated_bytes != NULL)
    use.kib = (long)(__sanitizer_get_current_allocated_bytes() >> 10);
  DIR* folder = opendir("/proc/self/fd");
  while (folder != NULL && readdir(folder) != NULL) ++use.descriptors;
  if (folder != NULL) closedir(folder);
  return use;
}

static void one_pair(void) {
  ncclComm_t pair[2];
  int out[2] = {0};
  const int one = 1;
  EXPECT_OK(ncclCommInitAll(pair, 2, NULL));
  EXPECT_OK(ncclGroupStart());
  for (int i = 0; i < 2; ++i) EXPECT_OK(ncclAllReduce(&one, &out[i], 1, ncclInt, ncclSum, pair[i], NULL));
  EXPECT_OK(ncclGroupEnd());
  EXPECT(out[0] == 2 && out[1] == 2);
  EXPECT_OK(ncclCommDestroy(pair[0]));
  EXPECT_OK(ncclCommAbort(pair[1]));
}

// Makes a communicator through an id, on its own helper threads. Every third one is aborted before the other rank has
// come.
static void one_by_id(int number) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  ncclComm_t pair[2] = {NULL, NULL};
  config.blocking = 0;
  EXPECT_OK(ncclGetUniqueId(&id));
  EXPECT(ncclCommInitRankConfig(&pair[0], 2, id, 0, &config) == ncclInProgress);
  if (number % 3 != 0) {
    EXPECT(ncclCommInitRankConfig(&pair[1], 2, id, 1, &config) == ncclInProgress);
    EXPECT(poll_until_done(pair[0]) == ncclSuccess && poll_until_done(pair[1]) == ncclSuccess);
    EXPECT_OK(ncclCommDestroy(pair[1]));
  }
  EXPECT_OK(ncclCommAbort(pair[0]));
}

static void churn(int first, int end) {
  for (int i = first; i < end; ++i) {
    one_pair();
    one_by_id(i);
  }
}

// Waits until the helper threads have ended. A meeting that failed answers late ranks for a while.
static Use settled(long threads) {
  const long long end = now_ms() + 60000;
  Use use = used_now();
  while (use.threads > threads && now_ms() < end) {
    usleep(50000);
    use = used_now();
  }
  return use;
}

static int test_churn(int count) {
  const int warm = count / 5;
  const Use first = used_now();
  churn(0, warm);
  const Use before = settled(first.threads);
  churn(warm, count);
  const Use after = settled(before.threads);
  printf("after %d and %d rounds of 4 communicators: %ld, %ld KiB; %ld, %ld threads; %ld, %ld descriptors\n", warm,
         count, before.kib, after.kib, before.threads, after.threads, before.descriptors, after.descriptors);
  EXPECT(after.kib - before.kib < 4096);
  EXPECT(after.threads <= before.threads);
  EXPECT(after.descriptors <= before.descriptors);
  return failures() != 0;
}

// The functions below are for `add` and `apart`.

static void add(Local* local) {
  int out = 0;
  const int one = 1;
  EXPECT_OK(ncclAllReduce(&one, &out, 1, ncclInt, ncclSum, local->comm[0], NULL));
  EXPECT(out == local->ranks);
}

static void set_host(int rank) { setenv("NCCL_HOSTID", rank == 0 ? "one" : "other", 1); }

int main(int count, char** arguments) {
  const char* what = count > 1 ? arguments[1] : "";
  const int number = count > 2 ? atoi(arguments[2]) : 0;
  if (strcmp(what, "abort") == 0) return test_abort(number);
  if (strcmp(what, "churn") == 0) return test_churn(number);
  if (strcmp(what, "add") == 0) return run_ranks("processes", 2, add);
  if (strcmp(what, "apart") == 0) return run_processes(2, set_host, add);
  fprintf(stderr, "usage: %s abort|churn|add|apart [COUNT]\n", arguments[0]);
  return 2;
}
