// `threads_test` runs two ranks as processes. The system refuses rank 1 a thread for a group, and two threads of rank 0
// call at once.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/bindings/nccl/harness.h"

// The number of threads that the next calls shall refuse.
static atomic_int g_to_refuse;

typedef int (*Create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

// Replaces the function of the system.
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  if (atomic_load(&g_to_refuse) > 0 && atomic_fetch_sub(&g_to_refuse, 1) > 0) return EAGAIN;
  void* const found = dlsym(RTLD_NEXT, "pthread_create");
  Create create;
  memcpy(&create, &found, sizeof create);
  return create(thread, attributes, body, argument);
}

// Rank 1 gets no thread for one split. That split is an error on both ranks, and so is the next one of its parent. The
// split of the other parent succeeds.
static void split_without_a_thread(Local* local) {
  const int me = local->me[0];
  ncclComm_t parents[2] = {NULL, NULL};
  ncclComm_t children[3] = {NULL, NULL, NULL};
  for (int i = 0; i < 2; ++i) EXPECT_OK(ncclCommSplit(local->comm[0], 0, me, &parents[i], NULL));
  EXPECT_OK(ncclGroupStart());
  for (int i = 0; i < 2; ++i) EXPECT_OK(ncclCommSplit(parents[i], 0, me, &children[i], NULL));
  EXPECT_OK(ncclCommSplit(parents[0], 0, -me, &children[2], NULL));
  atomic_store(&g_to_refuse, me == 1);
  const ncclResult_t result = ncclGroupEnd();
  EXPECT(result == (me == 1 ? ncclSystemError : ncclRemoteError));
  if (me == 1) EXPECT(strstr(ncclGetLastError(NULL), "cannot start a thread") != NULL);
  if (me == 0) EXPECT(strstr(ncclGetLastError(NULL), "by rank 1") != NULL);
  EXPECT(children[0] == NULL && children[1] != NULL && children[2] == NULL);
  EXPECT(ncclCommSplit(parents[0], 0, me, &children[0], NULL) != ncclSuccess);
  int sum = 0;
  const int one = 1;
  EXPECT_OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, children[1], NULL));
  EXPECT(sum == 2);
  EXPECT_OK(ncclCommDestroy(children[1]));
  for (int i = 0; i < 2; ++i) EXPECT_OK(ncclCommDestroy(parents[i]));
}

typedef struct {
  ncclComm_t comm;
  ncclResult_t result;
  int sum;
} Adding;

static atomic_int g_refused;

static void* add_once(void* argument) {
  Adding* const adding = argument;
  const int one = 1;
  adding->result = ncclAllReduce(&one, &adding->sum, 1, ncclInt, ncclSum, adding->comm, NULL);
  if (adding->result == ncclInvalidUsage) atomic_fetch_add(&g_refused, 1);
  return NULL;
}

// One of two calls at once is refused. That is no failure of the communicator, which goes on.
static void call_twice_at_once(Local* local) {
  const int me = local->me[0];
  ncclComm_t other = NULL;
  Adding adding[2] = {{local->comm[0], ncclSuccess, 0}, {local->comm[0], ncclSuccess, 0}};
  Adding meeting = {NULL, ncclSuccess, 0};
  EXPECT_OK(ncclCommSplit(local->comm[0], 0, me, &other, NULL));
  meeting.comm = other;
  if (me == 0) {
    pthread_t threads[2];
    ncclResult_t failure = ncclInternalError;
    for (int i = 0; i < 2; ++i) EXPECT(pthread_create(&threads[i], NULL, add_once, &adding[i]) == 0);
    while (atomic_load(&g_refused) == 0) usleep(1000);
    EXPECT_OK(ncclCommGetAsyncError(local->comm[0], &failure));
    EXPECT_OK(failure);
    add_once(&meeting);
    for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
    EXPECT((adding[0].result == ncclSuccess) != (adding[1].result == ncclSuccess));
  } else {
    add_once(&meeting);  // rank 0 has had its refusal
    add_once(&adding[0]);
  }
  EXPECT_OK(meeting.result);
  EXPECT(adding[0].sum + adding[1].sum == 2);
  EXPECT_OK(ncclCommDestroy(other));
}

int main(void) {
  return run_ranks("processes", 2, split_without_a_thread) != 0 || run_ranks("processes", 2, call_twice_at_once) != 0;
}
