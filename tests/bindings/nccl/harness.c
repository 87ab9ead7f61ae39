// Runs ranks as processes, as threads, or all of them on one thread.
#include "tests/bindings/nccl/harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_int g_failures;

int failures(void) { return atomic_load(&g_failures); }

void fail(const char* file, int line, const char* text) {
  atomic_fetch_add(&g_failures, 1);
  fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", file, line, text, ncclGetLastError(NULL));
}

long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

ncclResult_t poll_until_done(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  const long long end = now_ms() + 100000;
  while (now_ms() < end) {
    EXPECT_OK(ncclCommGetAsyncError(comm, &state));
    if (state != ncclInProgress) break;
    usleep(200);
  }
  return state;
}

void destroy(Local* local) {
  for (int i = 0; i < local->count; ++i) EXPECT_OK(ncclCommDestroy(local->comm[i]));
}

// The ranks that one thread drives: `count` ranks from `first` on. Another thread may drive up to `each` ranks.
typedef struct {
  ncclUniqueId id;
  int ranks;
  int first;
  int count;
  int each;
  Body body;
} Start;

static void run_some(const Start* start) {
  Local local = {.ranks = start->ranks, .count = start->count, .alone = start->each == 1, .id = &start->id};
  for (int i = 0; i < start->count; ++i) local.me[i] = start->first + i;
  EACH(&local, ncclCommInitRank(&local.comm[i], start->ranks, start->id, local.me[i]));
  if (local.comm[0] == NULL) return;
  start->body(&local);
  destroy(&local);
}

static int run_all(int ranks, Body body) {
  Local local = {.ranks = ranks, .count = ranks};
  EXPECT_OK(ncclCommInitAll(local.comm, ranks, NULL));
  for (int rank = 0; rank < ranks; ++rank) local.me[rank] = rank;
  if (failures() == 0) {
    body(&local);
    destroy(&local);
  }
  return failures() != 0;
}

static void* thread_main(void* start) {
  run_some(start);
  return NULL;
}

// Starts threads that drive `each` ranks.
static int run_threads(int ranks, int each, Body body) {
  Start starts[kMostRanks];
  pthread_t threads[kMostRanks];
  ncclUniqueId id;
  int count = 0;
  EXPECT_OK(ncclGetUniqueId(&id));
  for (int first = 0; first < ranks; first += each) {
    starts[count] = (Start){id, ranks, first, ranks - first < each ? ranks - first : each, each, body};
    pthread_create(&threads[count], NULL, thread_main, &starts[count]);
    ++count;
  }
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  return failures() != 0;
}

// Runs one rank as a process. Rank 0 makes the id, and sends it to the others through their pipes.
static int process_main(int (*pipes)[2], int ranks, int rank, Body body) {
  ncclUniqueId id;
  if (rank == 0) {
    EXPECT_OK(ncclGetUniqueId(&id));
    for (int other = 1; other < ranks; ++other) EXPECT(write(pipes[other][1], &id, sizeof id) == sizeof id);
  } else {
    EXPECT(read(pipes[rank][0], &id, sizeof id) == sizeof id);
  }
  run_some(&(Start){id, ranks, rank, 1, 1, body});
  return failures() != 0;
}

int run_processes(int ranks, void (*before)(int rank), Body body) {
  int pipes[kMostRanks][2];
  int failed = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (pipe(pipes[rank]) != 0) return 1;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0 && before != NULL) before(rank);
    if (child == 0) exit(process_main(pipes, ranks, rank, body));
    if (child < 0) return 1;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    wait(&status);
    if (status != 0) failed = 1;
  }
  return failed;
}

// Writes the id of rank 0 to a file that both hosts see. The file is renamed, so that it is always whole.
static void tell_id(const char* path, const ncclUniqueId* id) {
  char draft[4096];
  (void)snprintf(draft, sizeof draft, "%s.draft", path);
  FILE* file = fopen(draft, "w");
  EXPECT(file != NULL && fwrite(id, sizeof *id, 1, file) == 1 && fclose(file) == 0 && rename(draft, path) == 0);
}

static void hear_id(const char* path, ncclUniqueId* id) {
  const long long end = now_ms() + 30000;
  FILE* file = fopen(path, "r");
  for (; file == NULL && now_ms() < end; file = fopen(path, "r")) usleep(10000);
  EXPECT(file != NULL && fread(id, sizeof *id, 1, file) == 1);
  if (file != NULL) fclose(file);
}

static int host_main(const char* path, int ranks, int rank, Body body) {
  ncclUniqueId id;
  if (rank == 0) {
    EXPECT_OK(ncclGetUniqueId(&id));
    tell_id(path, &id);
  } else {
    hear_id(path, &id);
  }
  if (failures() == 0) run_some(&(Start){id, ranks, rank, 1, 1, body});
  return failures() != 0;
}

// Runs the ranks of this host, which has the number $RANK of two: half of them.
static int run_host(int ranks, Body body) {
  const char* host = getenv("RANK");
  const char* path = getenv("NCCL_TEST_ID");
  const int first = host != NULL && atoi(host) == 1 ? ranks / 2 : 0;
  const int end = first == 0 ? ranks / 2 : ranks;
  int failed = 0;
  if (host == NULL || path == NULL) return 2;
  for (int rank = first; rank < end; ++rank) {
    if (fork() == 0) exit(host_main(path, ranks, rank, body));
  }
  for (int rank = first; rank < end; ++rank) {
    int status = 1;
    wait(&status);
    if (status != 0) failed = 1;
  }
  return failed;
}

int run_ranks(const char* mode, int ranks, Body body) {
  if (ranks < 1 || ranks > kMostRanks) return 2;
  if (strcmp(mode, "processes") == 0) return run_processes(ranks, NULL, body);
  if (strcmp(mode, "host") == 0) return run_host(ranks, body);
  if (strcmp(mode, "threads") == 0) return run_threads(ranks, 1, body);
  if (strcmp(mode, "pairs") == 0) return run_threads(ranks, 2, body);
  if (strcmp(mode, "group") == 0) return run_threads(ranks, ranks, body);
  return strcmp(mode, "all") == 0 ? run_all(ranks, body) : 2;
}
