// NCCL's calls and layouts (nccl.h 2.28.9), as far as the shim in this folder serves them: for host buffers.
//
// A call is complete when it returned ncclSuccess, or when ncclCommGetAsyncError does after ncclInProgress; the
// stream argument is not used.
#pragma once

#include <climits>
#include <cstddef>

// NOLINTBEGIN(readability-identifier-naming): the names and layouts are NCCL's.
extern "C" {

struct ncclComm;
using ncclComm_t = ncclComm*;
struct CUstream_st;
using cudaStream_t = CUstream_st*;

struct ncclUniqueId {
  char internal[128];
};

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum ncclDataType_t {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
};

enum ncclRedOp_t { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4, ncclMaxRedOp = 0x7fffffff };

constexpr int NCCL_CONFIG_UNDEF_INT = INT_MIN;

struct ncclConfig_t {
  std::size_t size = sizeof(ncclConfig_t);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 22809;
  int blocking = NCCL_CONFIG_UNDEF_INT;
  int cgaClusterSize = NCCL_CONFIG_UNDEF_INT;
  int minCTAs = NCCL_CONFIG_UNDEF_INT;
  int maxCTAs = NCCL_CONFIG_UNDEF_INT;
  const char* netName = nullptr;
  int splitShare = NCCL_CONFIG_UNDEF_INT;
  int trafficClass = NCCL_CONFIG_UNDEF_INT;
  const char* commName = nullptr;
  int collnetEnable = NCCL_CONFIG_UNDEF_INT;
  int CTAPolicy = NCCL_CONFIG_UNDEF_INT;
  int shrinkShare = NCCL_CONFIG_UNDEF_INT;
  int nvlsCTAs = NCCL_CONFIG_UNDEF_INT;
  int nChannelsPerNetPeer = NCCL_CONFIG_UNDEF_INT;
  int nvlinkCentricSched = NCCL_CONFIG_UNDEF_INT;
};

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) noexcept;
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) noexcept;
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) noexcept;
ncclResult_t ncclCommFinalize(ncclComm_t comm) noexcept;
ncclResult_t ncclCommDestroy(ncclComm_t comm) noexcept;
ncclResult_t ncclCommAbort(ncclComm_t comm) noexcept;
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) noexcept;
ncclResult_t ncclCommCount(ncclComm_t comm, int* count) noexcept;
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) noexcept;
const char* ncclGetErrorString(ncclResult_t result) noexcept;
// The text of this thread's last error, or of `comm` where one is given. Valid until the thread's next call.
const char* ncclGetLastError(ncclComm_t comm) noexcept;
ncclResult_t ncclAllReduce(const void* input, void* output, std::size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) noexcept;
ncclResult_t ncclGroupStart() noexcept;
ncclResult_t ncclGroupEnd() noexcept;
}
// NOLINTEND(readability-identifier-naming)

static_assert(sizeof(ncclUniqueId) == 128 && alignof(ncclUniqueId) == 1);
static_assert(sizeof(ncclConfig_t) == 80 && offsetof(ncclConfig_t, blocking) == 16 &&
              offsetof(ncclConfig_t, netName) == 32 && offsetof(ncclConfig_t, commName) == 48 &&
              offsetof(ncclConfig_t, nvlinkCentricSched) == 76);
