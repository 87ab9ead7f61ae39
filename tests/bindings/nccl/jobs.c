// One group may hold several jobs of one parent, together with its calls and its end.
#include "tests/bindings/nccl/tests.h"

enum { kRounds = 5 };

// Expects that each of local's communicators links the right ranks of the parent: those from `first` on in steps of
// `step`.
static void expect_members(Local* local, const int* first, int step) {
  int out[kMostRanks] = {0};
  EACH(local, ncclAllReduce(&local->me[i], &out[i], 1, ncclInt, ncclSum, local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i) {
    int sum = 0;
    for (int rank = first[i]; rank < local->ranks; rank += step) sum += rank;
    EXPECT(out[i] == sum);
  }
}

static void expect_all(Local* local) {
  const int first[kMostRanks] = {0};
  expect_members(local, first, 1);
}

static void expect_halves(Local* local) {
  int first[kMostRanks];
  for (int i = 0; i < local->count; ++i) first[i] = local->me[i] % 2;
  expect_members(local, first, 2);
}

// Makes three splits, which differ by members and order.
static void split_thrice(Local* local) {
  Local halves = *local;
  Local reversed = *local;
  Local again = *local;
  EXPECT_OK(ncclGroupStart());
  for (int i = 0; i < local->count; ++i) {
    const int me = local->me[i];
    EXPECT_OK(ncclCommSplit(local->comm[i], me % 2, me, &halves.comm[i], NULL));
    EXPECT_OK(ncclCommSplit(local->comm[i], 0, -me, &reversed.comm[i], NULL));
    EXPECT_OK(ncclCommSplit(local->comm[i], me % 2, -me, &again.comm[i], NULL));
  }
  EXPECT_OK(ncclGroupEnd());
  for (int i = 0; i < local->count; ++i) {
    int rank = -1;
    EXPECT_OK(ncclCommUserRank(reversed.comm[i], &rank));
    EXPECT(rank == local->ranks - 1 - local->me[i]);
  }
  expect_halves(&halves);
  expect_all(&reversed);
  expect_halves(&again);
  destroy(&halves);
  destroy(&reversed);
  destroy(&again);
}

// Makes a call of the parent, a split, and a shrink that leaves out the last rank. That rank does not call the shrink.
static void call_split_and_shrink(Local* local) {
  Local child = *local;
  Local fewer = *local;
  int last = local->ranks - 1;
  int out[kMostRanks] = {0};
  ncclComm_t made[kMostRanks] = {0};
  const int one = 1;
  EXPECT_OK(ncclGroupStart());
  for (int i = 0; i < local->count; ++i) {
    EXPECT_OK(ncclAllReduce(&one, &out[i], 1, ncclInt, ncclSum, local->comm[i], NULL));
    EXPECT_OK(ncclCommSplit(local->comm[i], 0, local->me[i], &child.comm[i], NULL));
    if (local->me[i] == last) continue;
    EXPECT_OK(ncclCommShrink(local->comm[i], &last, 1, &made[i], NULL, NCCL_SHRINK_DEFAULT));
  }
  EXPECT_OK(ncclGroupEnd());
  fewer.count = 0;
  for (int i = 0; i < local->count; ++i) {
    EXPECT(out[i] == local->ranks);
    if (local->me[i] != last) fewer.comm[fewer.count++] = made[i];
  }
  expect_all(&child);
  if (fewer.count > 0) expect_ranks(&fewer, last);
  destroy(&child);
  destroy(&fewer);
}

void test_jobs_of_one_parent(Local* local) {
  for (int round = 0; round < kRounds; ++round) {
    split_thrice(local);
    call_split_and_shrink(local);
  }
}

// Odd ranks name the parents, and the ids of new communicators, in the other order.
void test_jobs_of_several_parents(Local* local) {
  Local other = copy_of(local);
  Local halves = *local;
  Local whole = *local;
  Local met[2] = {*local, *local};
  const ncclUniqueId ids[2] = {new_id(local), new_id(local)};
  EXPECT_OK(ncclGroupStart());
  for (int i = 0; i < local->count; ++i) {
    const int me = local->me[i];
    for (int turn = 0; turn < 2; ++turn) {
      const int which = (turn + me) % 2;
      EXPECT_OK(ncclCommInitRankConfig(&met[which].comm[i], local->ranks, ids[which], me, NULL));
      if (which == 0) EXPECT_OK(ncclCommSplit(local->comm[i], me % 2, me, &halves.comm[i], NULL));
      if (which == 1) EXPECT_OK(ncclCommSplit(other.comm[i], 0, me, &whole.comm[i], NULL));
    }
  }
  EXPECT_OK(ncclGroupEnd());
  expect_halves(&halves);
  expect_all(&whole);
  expect_all(&met[0]);
  expect_all(&met[1]);
  destroy(&halves);
  destroy(&whole);
  destroy(&met[0]);
  destroy(&met[1]);
  destroy(&other);
}

// A group ends a communicator, although other calls of it follow. The group ends it last.
static void end_what_is_used(Local* local) {
  Local parent = copy_of(local);
  Local child = *local;
  int out[kMostRanks] = {0};
  const int one = 1;
  EXPECT_OK(ncclGroupStart());
  for (int i = 0; i < parent.count; ++i) {
    EXPECT_OK(ncclCommFinalize(parent.comm[i]));
    EXPECT_OK(ncclCommDestroy(parent.comm[i]));
    EXPECT_OK(ncclCommSplit(parent.comm[i], 0, local->me[i], &child.comm[i], NULL));
    EXPECT_OK(ncclAllReduce(&one, &out[i], 1, ncclInt, ncclSum, parent.comm[i], NULL));
  }
  EXPECT_OK(ncclGroupEnd());
  for (int i = 0; i < parent.count; ++i) {
    EXPECT(out[i] == local->ranks);
    EXPECT_REFUSED(ncclInvalidArgument, "no communicator", ncclCommDestroy(parent.comm[i]));
  }
  expect_all(&child);
  destroy(&child);
}

// A call of a group is refused: the group then ends no communicator. An abort takes effect at once and makes the
// group's end fail.
static void end_what_fails(Local* local) {
  Local parent = copy_of(local);
  ncclComm_t children[kMostRanks] = {0};
  EXPECT_OK(ncclGroupStart());
  for (int i = 0; i < parent.count; ++i) {
    EXPECT_OK(ncclCommDestroy(parent.comm[i]));
    EXPECT_REFUSED(ncclInvalidArgument, "color = -7", ncclCommSplit(parent.comm[i], -7, 0, &children[i], NULL));
  }
  EXPECT(ncclGroupEnd() == ncclInvalidArgument);
  expect_ranks(&parent, local->ranks);
  expect_ranks(local, local->ranks);  // all ranks have finished with it
  EXPECT_OK(ncclGroupStart());
  for (int i = 0; i < parent.count; ++i) {
    EXPECT_OK(ncclCommSplit(parent.comm[i], 0, 0, &children[i], NULL));
    EXPECT_OK(ncclCommAbort(parent.comm[i]));
    EXPECT_REFUSED(ncclInvalidArgument, "no communicator", ncclCommDestroy(parent.comm[i]));
  }
  EXPECT(ncclGroupEnd() == ncclInvalidArgument);
  for (int i = 0; i < parent.count; ++i) EXPECT(children[i] == NULL);
  parent = copy_of(local);
  EXPECT_OK(ncclGroupStart());
  for (int i = 0; i < parent.count; ++i) {
    EXPECT_OK(ncclCommSplit(parent.comm[i], 0, 0, &children[i], NULL));
    EXPECT_OK(ncclCommAbort(parent.comm[i]));
  }
  EXPECT_REFUSED(ncclInvalidUsage, "aborted", ncclGroupEnd());
  for (int i = 0; i < parent.count; ++i) EXPECT(children[i] == NULL);
}

void test_ends_in_groups(Local* local) {
  for (int round = 0; round < kRounds; ++round) end_what_is_used(local);
  end_what_fails(local);
}

// Calls of blocking and non-blocking communicators are mixed. They are refused before any job of their group has begun.
static void mix_kinds(Local* local) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  ncclComm_t child = NULL;
  int out[2] = {0};
  const int one = 1;
  config.blocking = 0;
  EXPECT_OK(ncclCommSplit(local->comm[0], 0, local->me[0], &comm, &config));
  EXPECT_OK(ncclGroupStart());
  EXPECT_OK(ncclCommSplit(local->comm[0], 0, local->me[0], &child, NULL));
  EXPECT_OK(ncclAllReduce(&one, &out[0], 1, ncclInt, ncclSum, local->comm[0], NULL));
  EXPECT_OK(ncclAllReduce(&one, &out[1], 1, ncclInt, ncclSum, comm, NULL));
  EXPECT_REFUSED(ncclInvalidUsage, "blocking and non-blocking", ncclGroupEnd());
  EXPECT(child == NULL);
  expect_ranks(local, local->ranks);
  EXPECT_OK(ncclCommDestroy(comm));
}

// Calls are made one by one, or in a group. A call that is made while jobs run comes after them.
static void go_on_at_once(Local* local, int in_group) {
  ncclConfig_t blocking = NCCL_CONFIG_INITIALIZER;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  blocking.blocking = 1;
  config.blocking = 0;
  const ncclResult_t begun = in_group ? ncclSuccess : ncclInProgress;
  const int me = local->me[0];
  const int one = 1;
  int out[2] = {0};
  ncclComm_t comm = NULL;
  Local halves = *local;
  Local whole = *local;
  EXPECT_OK(ncclCommSplit(local->comm[0], 0, me, &comm, &config));
  if (in_group) EXPECT_OK(ncclGroupStart());
  EXPECT(ncclCommSplit(comm, me % 2, me, &halves.comm[0], &config) == begun);
  EXPECT(ncclAllReduce(&one, &out[0], 1, ncclInt, ncclSum, comm, NULL) == begun);
  EXPECT(ncclCommSplit(comm, 0, me, &whole.comm[0], &blocking) == begun);
  EXPECT(ncclAllReduce(&one, &out[1], 1, ncclInt, ncclSum, comm, NULL) == begun);
  EXPECT(ncclCommFinalize(comm) == begun);
  if (in_group) EXPECT(ncclGroupEnd() == ncclInProgress);
  EXPECT_REFUSED(ncclInvalidUsage, "finalized", ncclCommFinalize(comm));
  EXPECT(poll_until_done(comm) == ncclSuccess);
  EXPECT(poll_until_done(halves.comm[0]) == ncclSuccess && poll_until_done(whole.comm[0]) == ncclSuccess);
  EXPECT(out[0] == local->ranks && out[1] == local->ranks);
  EXPECT_OK(ncclCommDestroy(comm));
  int sum = 0;
  EXPECT(ncclAllReduce(&me, &sum, 1, ncclInt, ncclSum, halves.comm[0], NULL) == ncclInProgress);
  EXPECT(poll_until_done(halves.comm[0]) == ncclSuccess);
  for (int rank = me % 2; rank < local->ranks; rank += 2) sum -= rank;
  EXPECT(sum == 0);
  expect_all(&whole);
  destroy(&halves);
  destroy(&whole);
}

// A parent and its children are aborted while its jobs wait for each other.
static void abort_at_once(Local* local) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  ncclComm_t children[2] = {NULL, NULL};
  float x = 0;
  config.blocking = 0;
  EXPECT_OK(ncclCommSplit(local->comm[0], 0, local->me[0], &comm, &config));
  for (int i = 0; i < 2; ++i) EXPECT(ncclCommSplit(comm, 0, 0, &children[i], NULL) == ncclInProgress);
  EXPECT(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, NULL) == ncclInProgress);
  EXPECT_OK(ncclCommAbort(children[1]));
  EXPECT_OK(ncclCommAbort(comm));
  EXPECT_OK(ncclCommAbort(children[0]));
}

void test_non_blocking_jobs(Local* local) {
  if (!local->alone) return;
  mix_kinds(local);
  for (int round = 0; round < 2 * kRounds; ++round) {
    go_on_at_once(local, round % 2);
    abort_at_once(local);
  }
}
