// Tests collectives, operators, messages and groups. The data that arrives is compared with the expected data.
#include <stdlib.h>

#include "tests/bindings/nccl/tests.h"

enum { kCount = 501 };

// Returns the value that rank `rank` has at `i`.
static float value(int rank, int i) { return (float)((rank + 1) * (i % 7 + 1)); }

typedef struct {
  float* in[kMostRanks];
  float* out[kMostRanks];
} Buffers;

// Makes buffers of `blocks` x kCount elements each.
static Buffers make_buffers(const Local* local, int blocks) {
  Buffers made = {0};
  for (int i = 0; i < local->count; ++i) {
    made.in[i] = malloc(sizeof(float) * kCount * (size_t)blocks);
    made.out[i] = malloc(sizeof(float) * kCount * (size_t)blocks);
    for (int j = 0; j < kCount * blocks; ++j) {
      made.in[i][j] = value(local->me[i], j);
      made.out[i][j] = -1;
    }
  }
  return made;
}

static void free_buffers(const Local* local, Buffers* made) {
  for (int i = 0; i < local->count; ++i) {
    free(made->in[i]);
    free(made->out[i]);
  }
}

// Returns the sum over ranks of their values at j.
static float sum(int ranks, int j) { return (float)(ranks * (ranks + 1) / 2) * value(0, j); }

static int equals_sum(const float* data, int ranks, int first) {
  for (int j = 0; j < kCount; ++j) {
    if (data[j] != sum(ranks, first + j)) return 0;
  }
  return 1;
}

static int equals_rank(const float* data, int rank, int first) {
  for (int j = 0; j < kCount; ++j) {
    if (data[j] != value(rank, first + j)) return 0;
  }
  return 1;
}

static int untouched(const float* data) { return data[0] == -1 && data[kCount - 1] == -1; }

static void test_all_reduce(Local* local) {
  Buffers b = make_buffers(local, 1);
  EACH(local, ncclAllReduce(b.in[i], b.out[i], kCount, ncclFloat, ncclSum, local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i) EXPECT(equals_sum(b.out[i], local->ranks, 0));
  EACH(local, ncclAllReduce(b.in[i], b.in[i], kCount, ncclFloat, ncclMax, local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i) EXPECT(equals_rank(b.in[i], local->ranks - 1, 0));
  EACH(local, pncclAllReduce(b.in[i], b.in[i], 0, ncclFloat, ncclMax, local->comm[i], NULL));
  free_buffers(local, &b);
}

static void test_rooted(Local* local, int root) {
  Buffers b = make_buffers(local, local->ranks);
  EACH(local, ncclReduce(b.in[i], b.out[i], kCount, ncclFloat, ncclSum, root, local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i)
    EXPECT(local->me[i] == root ? equals_sum(b.out[i], local->ranks, 0) : untouched(b.out[i]));
  EACH(local, ncclBroadcast(b.in[i], b.out[i], kCount, ncclFloat, root, local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i) EXPECT(equals_rank(b.out[i], root, 0));
  EACH(local, ncclGather(b.in[i], b.out[i], kCount, ncclFloat, root, local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i) {
    for (int rank = 0; local->me[i] == root && rank < local->ranks; ++rank)
      EXPECT(equals_rank(b.out[i] + rank * kCount, rank, 0));
  }
  EACH(local,
       ncclScatter(local->me[i] == root ? b.in[i] : NULL, b.out[i], kCount, ncclFloat, root, local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i) EXPECT(equals_rank(b.out[i], root, local->me[i] * kCount));
  EACH(local, ncclBcast(b.in[i], kCount, ncclFloat, root, local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i) EXPECT(equals_rank(b.in[i], root, 0));
  free_buffers(local, &b);
}

static void test_blocks(Local* local) {
  Buffers b = make_buffers(local, local->ranks);
  EACH(local, ncclReduceScatter(b.in[i], b.out[i], kCount, ncclFloat, ncclSum, local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i) EXPECT(equals_sum(b.out[i], local->ranks, local->me[i] * kCount));
  EACH(local, ncclAllGather(b.in[i], b.out[i], kCount, ncclFloat, local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i) {
    for (int rank = 0; rank < local->ranks; ++rank) EXPECT(equals_rank(b.out[i] + rank * kCount, rank, 0));
  }
  EACH(local, ncclAlltoAll(b.in[i], b.out[i], kCount, ncclFloat, local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i) {
    for (int rank = 0; rank < local->ranks; ++rank)
      EXPECT(equals_rank(b.out[i] + rank * kCount, rank, local->me[i] * kCount));
  }
  EACH(local, ncclAllGather(b.in[i] + local->me[i] * kCount, b.in[i], kCount, ncclFloat, local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i) {
    for (int rank = 0; rank < local->ranks; ++rank) EXPECT(equals_rank(b.in[i] + rank * kCount, rank, rank * kCount));
  }
  free_buffers(local, &b);
}

void test_collectives(Local* local) {
  test_all_reduce(local);
  test_blocks(local);
  for (int root = 0; root < local->ranks; ++root) test_rooted(local, root);
}

// The number one in the representation of each type.
static const struct {
  ncclDataType_t type;
  size_t bytes;
  unsigned char one[8];
} kOnes[] = {{ncclInt8, 1, {1}},
             {ncclUint8, 1, {1}},
             {ncclInt32, 4, {1}},
             {ncclUint32, 4, {1}},
             {ncclInt64, 8, {1}},
             {ncclUint64, 8, {1}},
             {ncclFloat16, 2, {0x00, 0x3c}},
             {ncclFloat32, 4, {0, 0, 0x80, 0x3f}},
             {ncclFloat64, 8, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}},
             {ncclBfloat16, 2, {0x80, 0x3f}},
             {ncclFloat8e4m3, 1, {0x38}},
             {ncclFloat8e5m2, 1, {0x3c}}};

// The product, the maximum, the minimum and the average of ones are one.
void test_types(Local* local) {
  EXPECT(sizeof kOnes / sizeof *kOnes == ncclNumTypes);
  const ncclRedOp_t ops[] = {ncclProd, ncclMax, ncclMin, ncclAvg};
  for (int type = 0; type < ncclNumTypes; ++type) {
    for (int op = 0; op < 4; ++op) {
      unsigned char out[kMostRanks][8] = {{0}};
      EACH(local, ncclAllReduce(kOnes[type].one, out[i], 1, kOnes[type].type, ops[op], local->comm[i], NULL));
      for (int i = 0; i < local->count; ++i) EXPECT(memcmp(out[i], kOnes[type].one, kOnes[type].bytes) == 0);
    }
  }
}

// Multiplies ones by one before they are summed. The result must be that of the plain sum, in every type.
static void test_factor_of_type(Local* local, int type) {
  ncclRedOp_t ops[kMostRanks];
  unsigned char out[kMostRanks][8] = {{0}};
  unsigned char plain[kMostRanks][8] = {{0}};
  EACH(local, ncclAllReduce(kOnes[type].one, plain[i], 1, kOnes[type].type, ncclSum, local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i) {
    EXPECT_OK(ncclRedOpCreatePreMulSum(&ops[i], (void*)kOnes[type].one, kOnes[type].type, ncclScalarHostImmediate,
                                       local->comm[i]));
    EXPECT(ops[i] >= ncclNumOps);
  }
  EACH(local, ncclAllReduce(kOnes[type].one, out[i], 1, kOnes[type].type, ops[i], local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i) {
    EXPECT(memcmp(out[i], plain[i], kOnes[type].bytes) == 0);
    EXPECT_OK(ncclRedOpDestroy(ops[i], local->comm[i]));
  }
}

void test_operators(Local* local) {
  for (int type = 0; type < ncclNumTypes; ++type) test_factor_of_type(local, type);
  float factors[kMostRanks];
  ncclRedOp_t ops[kMostRanks];
  Buffers b = make_buffers(local, 1);
  for (int i = 0; i < local->count; ++i) {
    factors[i] = 2;
    EXPECT_OK(ncclRedOpCreatePreMulSum(&ops[i], &factors[i], ncclFloat, ncclScalarDevice, local->comm[i]));
    // The call reads this value.
    factors[i] = (float)(local->me[i] + 1);
  }
  EACH(local, ncclAllReduce(b.in[i], b.out[i], kCount, ncclFloat, ops[i], local->comm[i], NULL));
  const int n = local->ranks;
  for (int i = 0; i < local->count; ++i) EXPECT(b.out[i][1] == (float)(n * (n + 1) * (2 * n + 1) / 6) * value(0, 1));
  double other[1] = {1};
  for (int i = 0; i < local->count; ++i) {
    EXPECT_REFUSED(ncclInvalidArgument, "was made for float32",
                   ncclAllReduce(other, other, 1, ncclDouble, ops[i], local->comm[i], NULL));
    EXPECT_OK(ncclRedOpDestroy(ops[i], local->comm[i]));
    EXPECT_REFUSED(ncclInvalidArgument, "no such operator", ncclRedOpDestroy(ops[i], local->comm[i]));
    EXPECT_REFUSED(ncclInvalidArgument, "no such operator",
                   ncclAllReduce(b.in[i], b.out[i], 1, ncclFloat, ops[i], local->comm[i], NULL));
    EXPECT_REFUSED(ncclInvalidArgument, "not the program's", ncclRedOpDestroy(ncclSum, local->comm[i]));
  }
  free_buffers(local, &b);
}

// Sends around the ring: each rank sends to the right and receives from the left.
static void send_around(Local* local, size_t count) {
  Buffers b = make_buffers(local, 1);
  EXPECT_OK(ncclGroupStart());
  for (int i = 0; i < local->count; ++i) {
    EXPECT_OK(ncclSend(b.in[i], count, ncclFloat, (local->me[i] + 1) % local->ranks, local->comm[i], NULL));
    EXPECT_OK(
        ncclRecv(b.out[i], count, ncclFloat, (local->me[i] + local->ranks - 1) % local->ranks, local->comm[i], NULL));
  }
  EXPECT_OK(ncclGroupEnd());
  for (int i = 0; i < local->count; ++i)
    EXPECT(count == 0 ? untouched(b.out[i])
                      : equals_rank(b.out[i], (local->me[i] + local->ranks - 1) % local->ranks, 0));
  free_buffers(local, &b);
}

// Sends outside a group, where a thread has one rank.
static void send_alone(Local* local) {
  Buffers b = make_buffers(local, 1);
  if (local->me[0] == 0) EXPECT_OK(ncclSend(b.in[0], kCount, ncclFloat, 1, local->comm[0], NULL));
  if (local->me[0] == 1) {
    EXPECT_OK(ncclRecv(b.out[0], kCount, ncclFloat, 0, local->comm[0], NULL));
    EXPECT(equals_rank(b.out[0], 0, 0));
  }
  free_buffers(local, &b);
}

void test_messages(Local* local) {
  send_around(local, kCount);
  send_around(local, 0);
  if (local->count == 1 && local->ranks > 1) send_alone(local);
  float x = 0;
  EXPECT_REFUSED(ncclInvalidUsage, "in a group", ncclSend(&x, 1, ncclFloat, local->me[0], local->comm[0], NULL));
}

// Messages, collectives and two communicators a rank are in nested groups. The sends and receives of two ranks come in
// orders that do not match.
void test_groups(Local* local) {
  ncclComm_t second[kMostRanks];
  Buffers b = make_buffers(local, 1);
  Buffers c = make_buffers(local, 1);
  EACH(local, ncclCommSplit(local->comm[i], 0, local->me[i], &second[i], NULL));
  EXPECT_OK(ncclGroupStart());
  for (int i = 0; i < local->count; ++i) {
    EXPECT_OK(ncclGroupStart());
    EXPECT_OK(ncclAllReduce(b.in[i], b.out[i], kCount, ncclFloat, ncclSum, second[i], NULL));
    for (int peer = 0; peer < local->ranks; ++peer) {
      EXPECT_OK(ncclRecv(c.out[i] + peer, 1, ncclFloat, peer, local->comm[i], NULL));
      EXPECT_OK(ncclSend(c.in[i], 1, ncclFloat, peer, local->comm[i], NULL));
    }
    EXPECT_OK(ncclGroupEnd());
    // No call begins before the end of the outermost group.
    EXPECT(untouched(b.out[i]));
  }
  EXPECT_OK(ncclGroupEnd());
  for (int i = 0; i < local->count; ++i) {
    EXPECT(equals_sum(b.out[i], local->ranks, 0));
    for (int peer = 0; peer < local->ranks; ++peer) EXPECT(c.out[i][peer] == value(peer, 0));
    EXPECT_OK(ncclCommDestroy(second[i]));
  }
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  EXPECT_OK(ncclGroupStart());
  for (int i = 0; i < local->count; ++i)
    EXPECT_OK(ncclAllReduce(c.in[i], c.out[i], kCount, ncclFloat, ncclSum, local->comm[i], NULL));
  EXPECT_OK(ncclGroupSimulateEnd(&info));
  EXPECT(local->ranks == 1 ? info.estimatedTime == 0 : info.estimatedTime > 0);
  // The call was not run.
  EXPECT(c.out[0][local->ranks] == -1);
  EXPECT_REFUSED(ncclInvalidUsage, "no group", ncclGroupEnd());
  EXPECT_REFUSED(ncclInvalidUsage, "no group", ncclGroupSimulateEnd(&info));
  EXPECT_OK(ncclGroupStart());
  EXPECT(ncclAllReduce(NULL, NULL, 1, ncclFloat, ncclSum, local->comm[0], NULL) == ncclInvalidArgument);
  // A refused call makes the group's end fail, and harms nothing.
  EXPECT(ncclGroupEnd() == ncclInvalidArgument);
  free_buffers(local, &b);
  free_buffers(local, &c);
  test_all_reduce(local);
}
