// The system refuses a thread to a group: `threads_test` runs two ranks as processes, of which rank 1 gets no thread.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

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

int main(void) { return run_ranks("processes", 2, split_without_a_thread); }
