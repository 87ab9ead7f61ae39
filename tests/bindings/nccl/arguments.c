// Tests memory, configs and wrong arguments. Each wrong argument is refused with a sentence, and does not harm the
// communicator.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/bindings/nccl/tests.h"

enum { kBytes = 1 << 22, kPage = 4096 };

static void expect_sum(Local* local, void* const* data) {
  for (int i = 0; i < local->count; ++i) *(int*)data[i] = 1;
  EACH(local, ncclAllReduce(data[i], data[i], kBytes / sizeof(int), ncclInt, ncclSum, local->comm[i], NULL));
  for (int i = 0; i < local->count; ++i) EXPECT(*(int*)data[i] == local->ranks);
}

static void test_allocations(Local* local) {
  void* data[kMostRanks];
  for (int i = 0; i < local->count; ++i) {
    void* handle = NULL;
    EXPECT_OK(ncclMemAlloc(&data[i], kBytes));
    EXPECT_OK(ncclCommRegister(local->comm[i], data[i], kBytes, &handle));  // shared already
    EXPECT(handle != NULL);
    EXPECT_OK(ncclCommDeregister(local->comm[i], handle));
  }
  expect_sum(local, data);
  for (int i = 0; i < local->count; ++i) EXPECT_OK(ncclMemFree(data[i]));
  EXPECT_REFUSED(ncclInvalidArgument, "no memory of", ncclMemFree(data[0]));
  EXPECT_REFUSED(ncclInvalidArgument, "ptr = null", ncclMemAlloc(NULL, 1));
  EXPECT_OK(ncclMemAlloc(&data[0], 0));
  EXPECT(data[0] == NULL);
  EXPECT_OK(ncclMemFree(NULL));
}

// Returns whether the memory is shared. The kernel marks shared memory in /proc/self/maps.
static int is_shared(const void* data) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  int shared = 0;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long first = 0;
    unsigned long end = 0;
    char mode[8] = "";
    if (sscanf(line, "%lx-%lx %7s", &first, &end, mode) == 3 && (unsigned long)data >= first &&
        (unsigned long)data < end)
      shared = mode[3] == 's';
  }
  if (maps != NULL) fclose(maps);
  return shared;
}

static void test_registrations(Local* local) {
  void* data[kMostRanks];
  void* handles[kMostRanks];
  void* again[kMostRanks];
  ncclWindow_t windows[kMostRanks];
  for (int i = 0; i < local->count; ++i) {
    data[i] = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(!is_shared(data[i]));
    EXPECT_OK(ncclCommRegister(local->comm[i], data[i], kBytes, &handles[i]));
    EXPECT(is_shared(data[i]));
    EXPECT_OK(ncclCommRegister(local->comm[i], (char*)data[i] + 100, 1000, &again[i]));  // a part of it
    EXPECT_OK(ncclCommWindowRegister(local->comm[i], data[i], kBytes, &windows[i], NCCL_WIN_COLL_SYMMETRIC));
    EXPECT(windows[i] != NULL);
  }
  expect_sum(local, data);
  for (int i = 0; i < local->count; ++i) {
    EXPECT_OK(ncclCommDeregister(local->comm[i], handles[i]));
    EXPECT_OK(ncclCommDeregister(local->comm[i], again[i]));
    EXPECT(is_shared(data[i]));
    EXPECT_REFUSED(ncclInvalidArgument, "handle is none", ncclCommDeregister(local->comm[i], windows[i]));
    EXPECT_OK(ncclCommWindowDeregister(local->comm[i], windows[i]));
    EXPECT(!is_shared(data[i]) && *(int*)data[i] == local->ranks);
    EXPECT_REFUSED(ncclInvalidArgument, "handle is none", ncclCommWindowDeregister(local->comm[i], windows[i]));
    munmap(data[i], kBytes);
  }
}

void test_memory(Local* local) {
  test_allocations(local);
  test_registrations(local);
  ncclComm_t comm = local->comm[0];
  char page[2];
  void* handle = NULL;
  ncclWindow_t window = NULL;
  void* aligned = aligned_alloc(kPage, kPage);
  EXPECT_REFUSED(ncclInvalidArgument, "page", ncclCommRegister(comm, page, 1, &handle));
  EXPECT_REFUSED(ncclInvalidArgument, "buff = null", ncclCommRegister(comm, NULL, 1, &handle));
  EXPECT_REFUSED(ncclInvalidArgument, "size = 0", ncclCommRegister(comm, page, 0, &handle));
  EXPECT_REFUSED(ncclInvalidArgument, "null", ncclCommRegister(comm, page, 1, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclCommRegister(NULL, page, 1, &handle));
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclCommDeregister(NULL, page));
  EXPECT_REFUSED(ncclInvalidArgument, "multiple of 4096",
                 ncclCommWindowRegister(comm, (char*)aligned + 1, 1, &window, 0));
  EXPECT_REFUSED(ncclInvalidArgument, "winFlags = 64", ncclCommWindowRegister(comm, aligned, kPage, &window, 64));
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclCommWindowRegister(NULL, aligned, kPage, &window, 0));
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclCommWindowDeregister(NULL, window));
  free(aligned);
}

static ncclResult_t init_with(const ncclConfig_t* config) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  ncclConfig_t copy = *config;
  EXPECT_OK(ncclGetUniqueId(&id));
  const ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, &copy);
  EXPECT((result == ncclSuccess) == (comm != NULL));
  if (comm != NULL) EXPECT_OK(ncclCommDestroy(comm));
  return result;
}

// Tests the size, magic and version of structs, and each field's range. The communicators have one rank, so only rank 0
// runs this.
void test_configs(Local* local) {
  if (local->me[0] != 0) return;
  const ncclConfig_t fresh = NCCL_CONFIG_INITIALIZER;
  ncclConfig_t config = fresh;
  EXPECT_OK(init_with(&config));
  config.magic = 1;
  EXPECT_REFUSED(ncclInvalidArgument, "NCCL_CONFIG_INITIALIZER", init_with(&config));
  config = fresh;
  config.size = 3;
  EXPECT_REFUSED(ncclInvalidArgument, "size = 3", init_with(&config));
  int* const fields[] = {&config.blocking,      &config.cgaClusterSize,      &config.minCTAs,
                         &config.maxCTAs,       &config.splitShare,          &config.trafficClass,
                         &config.collnetEnable, &config.CTAPolicy,           &config.shrinkShare,
                         &config.nvlsCTAs,      &config.nChannelsPerNetPeer, &config.nvlinkCentricSched};
  for (size_t field = 0; field < sizeof fields / sizeof *fields; ++field) {
    config = fresh;
    *fields[field] = -3;
    EXPECT_REFUSED(ncclInvalidArgument, "= -3", init_with(&config));
  }
  // A caller of 2.12 has none of the fields, and one of 2.27 lacks the last two. The values at their places are not
  // read.
  config.version = NCCL_VERSION(2, 27, 3);
  EXPECT_OK(init_with(&config));
  config.blocking = -3;
  config.version = NCCL_VERSION(2, 12, 7);
  config.size = 16;
  EXPECT_OK(init_with(&config));
  config = fresh;
  config.size = 4096;  // a later version
  EXPECT_OK(init_with(&config));
  config.netName = "IB";
  EXPECT_REFUSED(ncclInvalidUsage, "netName = IB", init_with(&config));
  config.netName = "Socket";
  EXPECT_OK(init_with(&config));
  config.minCTAs = 8;
  config.maxCTAs = 4;
  EXPECT_REFUSED(ncclInvalidArgument, "minCTAs = 8", init_with(&config));
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  info.magic = 1;
  EXPECT_OK(ncclGroupStart());
  EXPECT_REFUSED(ncclInvalidArgument, "NCCL_SIM_INFO_INITIALIZER", ncclGroupSimulateEnd(&info));
  EXPECT_OK(ncclGroupStart());
  EXPECT_REFUSED(ncclInvalidArgument, "simInfo = null", ncclGroupSimulateEnd(NULL));
}

static void wrong_inits(void) {
  ncclUniqueId id;
  ncclUniqueId empty = {{0}};
  ncclComm_t comm = NULL;
  ncclComm_t two[2];
  const int twice[] = {1, 1};
  const int negative[] = {0, -1};
  EXPECT_OK(ncclGetUniqueId(&id));
  EXPECT_REFUSED(ncclInvalidArgument, "uniqueId = null", ncclGetUniqueId(NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "version = null", ncclGetVersion(NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclCommInitRank(NULL, 1, id, 0));
  EXPECT_REFUSED(ncclInvalidArgument, "nranks = 0", ncclCommInitRank(&comm, 0, id, 0));
  EXPECT_REFUSED(ncclInvalidArgument, "rank = 2", ncclCommInitRank(&comm, 2, id, 2));
  EXPECT_REFUSED(ncclInvalidArgument, "rank = -1", ncclCommInitRank(&comm, 2, id, -1));
  EXPECT_REFUSED(ncclInvalidArgument, "unique id", ncclCommInitRank(&comm, 1, empty, 0));
  EXPECT(comm == NULL);
  EXPECT_REFUSED(ncclInvalidArgument, "nId = 0", ncclCommInitRankScalable(&comm, 1, 0, 0, &id, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "commIds = null", ncclCommInitRankScalable(&comm, 1, 0, 1, NULL, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclCommInitAll(NULL, 2, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "ndev = 0", ncclCommInitAll(two, 0, NULL));
  EXPECT_REFUSED(ncclInvalidUsage, "devlist[1] = 1 comes twice", ncclCommInitAll(two, 2, twice));
  EXPECT_REFUSED(ncclInvalidArgument, "devlist[1] = -1", ncclCommInitAll(two, 2, negative));
}

static void wrong_questions(ncclComm_t comm) {
  int answer = 0;
  ncclResult_t state;
  ncclComm_t child;
  EXPECT_REFUSED(ncclInvalidArgument, "null", ncclCommCount(comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "null", ncclCommUserRank(comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "null", ncclCommCuDevice(comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "asyncError = null", ncclCommGetAsyncError(comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclCommCount(NULL, &answer));
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclCommUserRank(NULL, &answer));
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclCommCuDevice(NULL, &answer));
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclCommGetAsyncError(NULL, &state));
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclCommFinalize(NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclCommRevoke(NULL, 0));
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclCommSplit(NULL, 0, 0, &child, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "newcomm = null", ncclCommSplit(comm, 0, 0, NULL, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "color = -2", ncclCommSplit(comm, -2, 0, &child, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "excludeRanksList = null", ncclCommShrink(comm, NULL, 1, &child, NULL, 0));
  answer = 99;
  EXPECT_REFUSED(ncclInvalidArgument, "= 99", ncclCommShrink(comm, &answer, 1, &child, NULL, 0));
  EXPECT_REFUSED(ncclInvalidArgument, "excludeRanksCount = 0", ncclCommShrink(comm, &answer, 0, &child, NULL, 0));
  EXPECT_REFUSED(ncclInvalidArgument, "shrinkFlags = 4", ncclCommShrink(comm, &answer, 1, &child, NULL, 4));
  EXPECT_OK(ncclCommUserRank(comm, &answer));
  EXPECT_REFUSED(ncclInvalidArgument, "is the caller", ncclCommShrink(comm, &answer, 1, &child, NULL, 0));
  EXPECT_REFUSED(ncclInvalidArgument, "no communicator", ncclCommCount((ncclComm_t)&answer, &answer));
  EXPECT_OK(ncclCommDestroy(NULL));
  EXPECT_OK(ncclCommAbort(NULL));
}

static void wrong_calls(ncclComm_t comm, int ranks) {
  float x[kMostRanks] = {0};
  float y[kMostRanks] = {0};
  const ncclDataType_t f = ncclFloat;
  const cudaStream_t stream = (cudaStream_t)(void*)x;
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclAllReduce(x, y, 1, f, ncclSum, NULL, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "sendbuff = null", ncclAllReduce(NULL, y, 1, f, ncclSum, comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "recvbuff = null", ncclAllReduce(x, NULL, 1, f, ncclSum, comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "datatype = 12", ncclAllReduce(x, y, 1, ncclNumTypes, ncclSum, comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "op = 5", ncclAllReduce(x, y, 1, f, ncclNumOps, comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "count = ", ncclAllReduce(x, y, (size_t)-1, f, ncclSum, comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "stream is not null", ncclAllReduce(x, y, 1, f, ncclSum, comm, stream));
  EXPECT_REFUSED(ncclInvalidArgument, "ncclReduce: root = 99", ncclReduce(x, y, 1, f, ncclSum, 99, comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "root = -1", ncclBroadcast(x, y, 1, f, -1, comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "ncclBcast: root = 99", ncclBcast(x, 1, f, 99, comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "ncclGather: root = 99", ncclGather(x, y, 1, f, 99, comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "ncclScatter: root = 99", ncclScatter(x, y, 1, f, 99, comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "ncclSend: peer = 99", ncclSend(x, 1, f, 99, comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "ncclRecv: peer = 99", ncclRecv(x, 1, f, 99, comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "ncclReduceScatter: send", ncclReduceScatter(NULL, y, 1, f, ncclSum, comm, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "ncclAllGather: recv", ncclAllGather(x, NULL, 1, f, comm, NULL));
  if (ranks > 1)
    EXPECT_REFUSED(ncclInvalidArgument, "ncclAlltoAll: sendbuff = recv", ncclAlltoAll(x, x, 1, f, comm, NULL));
}

static void wrong_operators(ncclComm_t comm) {
  ncclRedOp_t op = ncclSum;
  float two = 2;
  const ncclScalarResidence_t now = ncclScalarHostImmediate;
  EXPECT_REFUSED(ncclInvalidArgument, "op = null", ncclRedOpCreatePreMulSum(NULL, &two, ncclFloat, now, comm));
  EXPECT_REFUSED(ncclInvalidArgument, "scalar = null", ncclRedOpCreatePreMulSum(&op, NULL, ncclFloat, now, comm));
  EXPECT_REFUSED(ncclInvalidArgument, "datatype", ncclRedOpCreatePreMulSum(&op, &two, ncclNumTypes, now, comm));
  EXPECT_REFUSED(ncclInvalidArgument, "residence",
                 ncclRedOpCreatePreMulSum(&op, &two, ncclFloat, (ncclScalarResidence_t)9, comm));
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclRedOpCreatePreMulSum(&op, &two, ncclFloat, now, NULL));
  EXPECT_REFUSED(ncclInvalidArgument, "comm = null", ncclRedOpDestroy(op, NULL));
}

void test_wrong_arguments(Local* local) {
  wrong_inits();
  for (int i = 0; i < local->count; ++i) {
    wrong_questions(local->comm[i]);
    wrong_calls(local->comm[i], local->ranks);
    wrong_operators(local->comm[i]);
    EXPECT(strstr(pncclGetLastError(local->comm[i]), "comm = null") != NULL);
  }
  // The collectives still work after the mistakes.
  test_collectives(local);
}

// The library exports these names although they are not in nccl.h. It refuses what kernels would need, and answers
// questions about teams.
void test_device_interface(Local* local) {
  static const char* const kRefused[] = {"ncclDevCommCreate", "ncclDevCommDestroy", "ncclLLA2ACreateRequirement",
                                         "ncclLsaBarrierCreateRequirement", "ncclGinBarrierCreateRequirement"};
  typedef struct {
    int ranks, rank, stride;
  } Team;
  for (size_t i = 0; i < sizeof kRefused / sizeof *kRefused; ++i) {
    ncclResult_t (*refused)(void*, void*, void*, void*) = NULL;
    *(void**)&refused = dlsym(RTLD_DEFAULT, kRefused[i]);
    EXPECT(refused != NULL);
    if (refused != NULL) EXPECT_REFUSED(ncclInvalidUsage, kRefused[i], refused(NULL, NULL, NULL, NULL));
  }
  Team (*world)(ncclComm_t) = NULL;
  Team (*lsa)(ncclComm_t) = NULL;
  int (*to_world)(ncclComm_t, Team, int) = NULL;
  *(void**)&world = dlsym(RTLD_DEFAULT, "ncclTeamWorld");
  *(void**)&lsa = dlsym(RTLD_DEFAULT, "pncclTeamLsa");
  *(void**)&to_world = dlsym(RTLD_DEFAULT, "ncclTeamRankToWorld");
  for (int i = 0; i < local->count; ++i) {
    const Team all = world(local->comm[i]);
    const Team one = lsa(local->comm[i]);
    EXPECT(all.ranks == local->ranks && all.rank == local->me[i] && all.stride == 1);
    EXPECT(one.ranks == 1 && one.rank == 0);
    EXPECT(to_world(local->comm[i], one, 0) == local->me[i]);
  }
}
