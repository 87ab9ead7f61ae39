// Tests the making, the questions, the division and the end of communicators.
#include <stdlib.h>

#include "tests/bindings/nccl/tests.h"

void expect_ranks(Local* local, int ranks) {
  int out[kMostRanks] = {0};
  const int one = 1;
  EACH(local, ncclAllReduce(&one, &out[i], 1, ncclInt, ncclSum, local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i) EXPECT(out[i] == ranks);
}

void test_questions(Local* local) {
  int version = 0;
  EXPECT_OK(ncclGetVersion(&version));
  EXPECT(version / 100 == NCCL_VERSION_CODE / 100);
  for (int code = ncclSuccess; code <= ncclNumResults; ++code)
    EXPECT(strlen(ncclGetErrorString((ncclResult_t)code)) > 5);
  EXPECT(strcmp(ncclGetErrorString(ncclSuccess), "no error") == 0);
  for (int i = 0; i < local->count; ++i) {
    int count = -1;
    int rank = -1;
    int device = -2;
    ncclResult_t state = ncclInternalError;
    EXPECT_OK(ncclCommCount(local->comm[i], &count));
    EXPECT_OK(ncclCommUserRank(local->comm[i], &rank));
    EXPECT_OK(ncclCommCuDevice(local->comm[i], &device));
    EXPECT_OK(ncclCommGetAsyncError(local->comm[i], &state));
    EXPECT(count == local->ranks && rank == local->me[i] && state == ncclSuccess);
    EXPECT(device == (local->id == NULL ? rank : -1));
  }
}

// Splits even from odd ranks, in reverse order. Then makes a split of all ranks but rank 0.
void test_splits(Local* local) {
  Local child = *local;
  const int n = local->ranks;
  EACH(local, ncclCommSplit(local->comm[i], local->me[i] % 2, -local->me[i], &child.comm[i], NULL));
  for (int i = 0; i < local->count; ++i) {
    const int same = local->me[i] % 2 == 0 ? (n + 1) / 2 : n / 2;
    int rank = -1;
    int count = 0;
    EXPECT_OK(ncclCommUserRank(child.comm[i], &rank));
    EXPECT_OK(ncclCommCount(child.comm[i], &count));
    EXPECT(count == same && rank == same - 1 - local->me[i] / 2);
  }
  int out[kMostRanks] = {0};
  EACH(local, ncclAllReduce(&local->me[i], &out[i], 1, ncclInt, ncclMin, child.comm[i], NULL));
  for (int i = 0; i < local->count; ++i) EXPECT(out[i] == local->me[i] % 2);
  destroy(&child);
  Local rest = *local;
  rest.count = 0;
  ncclComm_t made[kMostRanks];
  EACH(local, ncclCommSplit(local->comm[i], local->me[i] == 0 ? NCCL_SPLIT_NOCOLOR : 3, 0, &made[i], NULL));
  for (int i = 0; i < local->count; ++i) {
    EXPECT((made[i] == NCCL_COMM_NULL) == (local->me[i] == 0));
    if (made[i] != NCCL_COMM_NULL) rest.comm[rest.count++] = made[i];
  }
  if (rest.count > 0) expect_ranks(&rest, n - 1);
  destroy(&rest);
}

Local copy_of(Local* local) {
  Local copy = *local;
  EACH(local, ncclCommSplit(local->comm[i], 0, local->me[i], &copy.comm[i], NULL));
  return copy;
}

// Shrinks a communicator to all ranks but the last one, which goes on without the call.
static void shrink(Local* local, int flags) {
  Local parent = copy_of(local);
  Local child = parent;
  int last = local->ranks - 1;
  ncclComm_t made[kMostRanks] = {0};
  child.count = 0;
  if (parent.count > 1) EXPECT_OK(ncclGroupStart());
  for (int i = 0; i < parent.count; ++i) {
    if (parent.me[i] != last) EXPECT_OK(ncclCommShrink(parent.comm[i], &last, 1, &made[i], NULL, flags));
  }
  if (parent.count > 1) EXPECT_OK(ncclGroupEnd());
  for (int i = 0; i < parent.count; ++i) {
    if (parent.me[i] == last) continue;
    int rank = -1;
    EXPECT_OK(ncclCommUserRank(made[i], &rank));
    EXPECT(rank == parent.me[i]);
    child.comm[child.count++] = made[i];
  }
  if (child.count > 0) expect_ranks(&child, last);
  if (flags == NCCL_SHRINK_DEFAULT) expect_ranks(&parent, local->ranks);  // unchanged
  destroy(&child);
  destroy(&parent);
}

void test_shrinks(Local* local) {
  if (local->ranks < 2) return;
  shrink(local, NCCL_SHRINK_DEFAULT);
  shrink(local, NCCL_SHRINK_ABORT);
}

void test_revoke(Local* local) {
  Local parent = copy_of(local);
  Local child = parent;
  for (int i = 0; i < parent.count; ++i) {
    ncclResult_t state = ncclInProgress;
    EXPECT_REFUSED(ncclInvalidArgument, "revokeFlags = 7", ncclCommRevoke(parent.comm[i], 7));
    EXPECT_OK(ncclCommRevoke(parent.comm[i], NCCL_REVOKE_DEFAULT));
    EXPECT_OK(ncclCommGetAsyncError(parent.comm[i], &state));
    EXPECT(state == ncclSuccess);
    float x = 0;
    EXPECT_REFUSED(ncclInvalidUsage, "was revoked", ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, parent.comm[i], NULL));
    EXPECT_REFUSED(ncclInvalidUsage, "was revoked", ncclCommFinalize(parent.comm[i]));
  }
  EACH(local, ncclCommSplit(parent.comm[i], 0, local->me[i], &child.comm[i], NULL));
  expect_ranks(&child, local->ranks);
  destroy(&child);
  destroy(&parent);
}

ncclUniqueId new_id(Local* local) {
  ncclUniqueId ids[kMostRanks];
  if (local->me[0] == 0) EXPECT_OK(ncclGetUniqueId(&ids[0]));
  EACH(local, ncclBcast(&ids[i], sizeof ids[i], ncclChar, 0, local->comm[i], NULL));
  return ids[0];
}

// Tests the other functions to init, and the end in two steps.
void test_inits(Local* local) {
  // The calls are for one rank each, so a thread or a process must have one rank.
  if (!local->alone) return;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  int count = 0;
  config.commName = "named";
  ncclUniqueId ids[2] = {new_id(local), new_id(local)};
  EXPECT_OK(ncclCommInitRankConfig(&comm, local->ranks, ids[0], local->me[0], &config));
  Local one = *local;
  one.comm[0] = comm;
  expect_ranks(&one, local->ranks);
  EXPECT_OK(ncclCommFinalize(comm));
  EXPECT_REFUSED(ncclInvalidUsage, "finalized", ncclCommFinalize(comm));
  EXPECT_REFUSED(ncclInvalidUsage, "finalized", ncclAllReduce(&count, &count, 1, ncclInt, ncclSum, comm, NULL));
  EXPECT_OK(ncclCommDestroy(comm));
  EXPECT_REFUSED(ncclInvalidArgument, "no communicator", ncclCommDestroy(comm));
  if (local->ranks > 1) {
    EXPECT_OK(ncclCommInitRankScalable(&one.comm[0], local->ranks, local->me[0], 1, ids + 1, NULL));
    expect_ranks(&one, local->ranks);
    expect_ranks(local, local->ranks);  // all ranks have finished with it
    EXPECT_OK(ncclCommAbort(one.comm[0]));
  }
}

// Expects that a call returns ncclInProgress and then ends well.
#define EXPECT_PROGRESS(call, comm)               \
  do {                                            \
    EXPECT((call) == ncclInProgress);             \
    EXPECT(poll_until_done(comm) == ncclSuccess); \
  } while (0)

// Every call returns at once, and is over when the communicator says so.
void test_non_blocking(Local* local) {
  if (!local->alone) return;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  ncclComm_t child = NULL;
  config.blocking = 0;
  const ncclUniqueId id = new_id(local);
  EXPECT_PROGRESS(ncclCommInitRankConfig(&comm, local->ranks, id, local->me[0], &config), comm);
  float* data = calloc(1 << 20, sizeof *data);
  data[7] = 1;
  EXPECT_PROGRESS(ncclAllReduce(data, data, 1 << 20, ncclFloat, ncclSum, comm, NULL), comm);
  EXPECT(data[7] == (float)local->ranks);
  EXPECT_OK(ncclGroupStart());
  EXPECT_OK(ncclAllReduce(data, data, 1 << 20, ncclFloat, ncclMax, comm, NULL));
  EXPECT_OK(ncclBcast(data, 1, ncclFloat, 0, comm, NULL));
  EXPECT_PROGRESS(ncclGroupEnd(), comm);
  EXPECT_PROGRESS(ncclCommSplit(comm, 0, 0, &child, &config), comm);
  EXPECT(child != NULL && poll_until_done(child) == ncclSuccess);
  EXPECT_PROGRESS(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, child, NULL), child);
  EXPECT_PROGRESS(ncclCommFinalize(child), child);
  EXPECT_OK(ncclCommDestroy(child));
  // A communicator whose other ranks never come can be aborted at once.
  if (local->me[0] == 0) {
    ncclUniqueId lonely;
    EXPECT_OK(ncclGetUniqueId(&lonely));
    EXPECT(ncclCommInitRankConfig(&child, 2, lonely, 0, &config) == ncclInProgress);
    const long long begun = now_ms();
    EXPECT_OK(ncclCommAbort(child));
    EXPECT(now_ms() - begun < 1000);
  }
  EXPECT_OK(ncclCommDestroy(comm));
  free(data);
}
