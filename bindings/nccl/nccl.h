// Declares the C interface of NCCL 2.28, as Wreath's libnccl.so.2 provides it. Names, values and layouts are those that
// programs were compiled with; the words are Wreath's own.
//
// A call on host memory with a null stream is complete when it has returned ncclSuccess, within a group when the
// outermost ncclGroupEnd has. A call on a CUDA device's memory, or in a stream, returns at once and runs in the stream
// (docs/nccl.md). Where a communicator is non-blocking (ncclConfig_t::blocking = 0) calls may return ncclInProgress.
// They are complete once ncclCommGetAsyncError says ncclSuccess.
//
// Any thread may call any function. Of one communicator one thread at a time makes calls, while ncclCommAbort,
// ncclCommGetAsyncError and the questions may come from any other. Every function exists twice: as pncclX, and as
// ncclX, which is weak, so that a tool may put its own before it.
#pragma once

#include <limits.h>
#include <stddef.h>

// Programs that get device types by way of this header find them here, where the CUDA toolkit is.
#if defined(__has_include)
#if __has_include(<cuda_runtime.h>) && __has_include(<cuda_fp16.h>) && __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define WREATH_NCCL_WITH_CUDA_HEADERS 1
#endif
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""
// Up to version 2.8 a version had one digit for its minor number.
#define NCCL_VERSION(major, minor, patch) \
  (((major) <= 2 && (minor) <= 8) ? (major)*1000 + (minor)*100 + (patch) : (major)*10000 + (minor)*100 + (patch))
#define NCCL_VERSION_CODE 22809

#ifdef __cplusplus
extern "C" {
#endif

#ifndef WREATH_NCCL_WITH_CUDA_HEADERS
typedef struct CUstream_st* cudaStream_t;
#endif

// In C every value of an enumeration's integer may be passed, and is refused. In C++ that holds only where the integer
// is named.
#if defined(__cplusplus) && __cplusplus >= 201103L
#define WREATH_NCCL_UNSIGNED : unsigned int
#else
#define WREATH_NCCL_UNSIGNED
#endif

// Is the handle of a communicator, which belongs to the program until ncclCommDestroy or ncclCommAbort.
typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
// Holds an address and a secret, by which ranks meet. It is to be sent over a private channel.
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum WREATH_NCCL_UNSIGNED {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  // The operating system refused, a clock ran out, or the ranks could not meet.
  ncclSystemError = 2,
  ncclInternalError = 3,
  // A value is wrong, or ranks disagree on a call.
  ncclInvalidArgument = 4,
  // The call is not allowed now, or not to be had here.
  ncclInvalidUsage = 5,
  // Another rank is gone or has aborted.
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclNumResults = 8
} ncclResult_t;

typedef enum WREATH_NCCL_UNSIGNED {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

// Is as wide as the first versions of ncclRedOp_t were.
typedef enum WREATH_NCCL_UNSIGNED { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
// Values from ncclNumOps on are operators that ncclRedOpCreatePreMulSum has made.
typedef enum WREATH_NCCL_UNSIGNED {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff >> (32 - 8 * sizeof(ncclRedOp_dummy_t))
} ncclRedOp_t;

// Says when the factor of a pre-multiplied sum is read: by each call, or once.
typedef enum WREATH_NCCL_UNSIGNED { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_UNDEF_FLOAT -1.0f

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#define NCCL_SHRINK_DEFAULT 0x00
// The parent's calls in flight are ended first.
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00

// Begins with NCCL_CONFIG_INITIALIZER. The fields `blocking`, `netName` and `commName` have a meaning. Fields that
// bound a device's resources (cgaClusterSize to maxCTAs, CTAPolicy, nvls..., nvlink...) are checked and have nothing to
// bound.
typedef struct ncclConfig_v22800 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  // With 0, calls may return ncclInProgress.
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;  // NULL or "Socket"
  int splitShare;
  int trafficClass;
  // Stands in error messages.
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                                \
  {                                                                                                            \
    sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), NCCL_CONFIG_UNDEF_INT, \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR,            \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,            \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,            \
        NCCL_CONFIG_UNDEF_INT                                                                                  \
  }

// Begins with NCCL_SIM_INFO_INITIALIZER.
typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;  // microseconds
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), NCCL_UNDEF_FLOAT }

// Declares a function under both of its names.
#define WREATH_NCCL_BOTH(type, name, parameters) \
  type nccl##name parameters;                    \
  type pnccl##name parameters

// ---- about the library ----

WREATH_NCCL_BOTH(ncclResult_t, GetVersion, (int* version));
// Returns a constant sentence for a code.
WREATH_NCCL_BOTH(const char*, GetErrorString, (ncclResult_t result));
// Returns what went wrong last: of the communicator, else (and for a null one) in a call of this thread, else in the
// process. The text lives until this thread asks again.
WREATH_NCCL_BOTH(const char*, GetLastError, (ncclComm_t comm));
// Reads NCCL_DEBUG again; this is deprecated.
__attribute__((deprecated)) void ncclResetDebugInit(void);
__attribute__((deprecated)) void pncclResetDebugInit(void);

// ---- communicators ----

// Opens the meeting point in this process, which must live until all ranks have met. Ranks of other hosts reach it
// over an interface of NCCL_SOCKET_IFNAME.
WREATH_NCCL_BOTH(ncclResult_t, GetUniqueId, (ncclUniqueId * uniqueId));
WREATH_NCCL_BOTH(ncclResult_t, CommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank));
WREATH_NCCL_BOTH(ncclResult_t, CommInitRankConfig,
                 (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config));
// Makes a rank like ncclCommInitRankConfig. All ranks give the same nId ids in the same order, and meet at the first.
WREATH_NCCL_BOTH(ncclResult_t, CommInitRankScalable,
                 (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds, ncclConfig_t* config));
// Makes ndev communicators of this process; comm[i] is rank i. `devlist`, if any, holds ndev different numbers, which
// ncclCommCuDevice gives back.
WREATH_NCCL_BOTH(ncclResult_t, CommInitAll, (ncclComm_t * comm, int ndev, const int* devlist));
// Waits for what is in flight and leaves the other ranks; only ncclCommDestroy, ncclCommAbort and questions remain.
WREATH_NCCL_BOTH(ncclResult_t, CommFinalize, (ncclComm_t comm));
// Waits for what is in flight and frees the communicator. Null is allowed.
WREATH_NCCL_BOTH(ncclResult_t, CommDestroy, (ncclComm_t comm));
// Ends what is in flight, here and on the other ranks, and frees the communicator. Returns within a second.
WREATH_NCCL_BOTH(ncclResult_t, CommAbort, (ncclComm_t comm));
// Ends what is in flight; ncclCommShrink, ncclCommSplit, ncclCommDestroy and ncclCommAbort remain.
WREATH_NCCL_BOTH(ncclResult_t, CommRevoke, (ncclComm_t comm, int revokeFlags));
// Makes a communicator of the ranks of one color. Every rank calls it; with NCCL_SPLIT_NOCOLOR a rank takes part and
// gets NULL.
WREATH_NCCL_BOTH(ncclResult_t, CommSplit,
                 (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config));
// Makes a communicator without some ranks. Every rank but the excluded ones calls it, with the same list.
WREATH_NCCL_BOTH(ncclResult_t, CommShrink,
                 (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
                  ncclConfig_t* config, int shrinkFlags));
WREATH_NCCL_BOTH(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t* asyncError));
WREATH_NCCL_BOTH(ncclResult_t, CommCount, (ncclComm_t comm, int* count));
// Gives -1 where the communicator was made without a device.
WREATH_NCCL_BOTH(ncclResult_t, CommCuDevice, (ncclComm_t comm, int* device));
WREATH_NCCL_BOTH(ncclResult_t, CommUserRank, (ncclComm_t comm, int* rank));

// ---- memory ----

// Allocates memory of the current CUDA device, else memory that the ranks of a host map: messages from it are read in
// place. With 0 bytes *ptr is NULL.
WREATH_NCCL_BOTH(ncclResult_t, MemAlloc, (void** ptr, size_t size));
// Frees memory of ncclMemAlloc. Null is allowed.
WREATH_NCCL_BOTH(ncclResult_t, MemFree, (void* ptr));
// Makes the program's own memory such memory until it is deregistered. No thread may use it during the call.
WREATH_NCCL_BOTH(ncclResult_t, CommRegister, (ncclComm_t comm, void* buff, size_t size, void** handle));
WREATH_NCCL_BOTH(ncclResult_t, CommDeregister, (ncclComm_t comm, void* handle));
// Does the same for memory that begins at a multiple of NCCL_WIN_REQUIRED_ALIGNMENT.
WREATH_NCCL_BOTH(ncclResult_t, CommWindowRegister,
                 (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags));
WREATH_NCCL_BOTH(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t win));

// ---- operators ----

// Makes an operator: every rank's input is multiplied by that rank's *scalar, of type `datatype`, and then summed.
WREATH_NCCL_BOTH(ncclResult_t, RedOpCreatePreMulSum,
                 (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
                  ncclComm_t comm));
WREATH_NCCL_BOTH(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));

// ---- collectives: every rank makes the same calls in the same order; counts are in elements ----

// Works in place where sendbuff == recvbuff.
WREATH_NCCL_BOTH(ncclResult_t, AllReduce,
                 (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                  ncclComm_t comm, cudaStream_t stream));
WREATH_NCCL_BOTH(ncclResult_t, Reduce,
                 (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
                  ncclComm_t comm, cudaStream_t stream));
WREATH_NCCL_BOTH(ncclResult_t, Broadcast,
                 (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                  ncclComm_t comm, cudaStream_t stream));
WREATH_NCCL_BOTH(ncclResult_t, Bcast,
                 (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream));
// Takes nranks * recvcount elements of each rank, and gives recvcount to each. In place recvbuff is a block of
// sendbuff.
WREATH_NCCL_BOTH(ncclResult_t, ReduceScatter,
                 (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                  ncclComm_t comm, cudaStream_t stream));
// Takes sendcount elements of each rank, and gives nranks * sendcount to each. In place sendbuff is a block of
// recvbuff.
WREATH_NCCL_BOTH(ncclResult_t, AllGather,
                 (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                  cudaStream_t stream));
// Takes `count` elements of each rank, and gives nranks * count to the root. In place sendbuff is a block of recvbuff.
WREATH_NCCL_BOTH(ncclResult_t, Gather,
                 (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                  ncclComm_t comm, cudaStream_t stream));
// Takes nranks * count elements of the root, and gives `count` to each rank. In place recvbuff is a block of sendbuff.
WREATH_NCCL_BOTH(ncclResult_t, Scatter,
                 (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                  ncclComm_t comm, cudaStream_t stream));
// Does not work in place.
WREATH_NCCL_BOTH(ncclResult_t, AlltoAll,
                 (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                  cudaStream_t stream));

// ---- one rank to another; in a group they run together, in any order ----

WREATH_NCCL_BOTH(ncclResult_t, Send,
                 (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                  cudaStream_t stream));
WREATH_NCCL_BOTH(ncclResult_t, Recv,
                 (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                  cudaStream_t stream));

// ---- groups: of the calling thread, over any communicators; they nest, and the outermost end begins the calls ----

WREATH_NCCL_BOTH(ncclResult_t, GroupStart, (void));
// Runs the inits, splits and shrinks of a group, then its collectives and messages. Returns the first error of any call
// of the group.
WREATH_NCCL_BOTH(ncclResult_t, GroupEnd, (void));
// Ends a group without running it, and tells how long that would have taken.
WREATH_NCCL_BOTH(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * simInfo));

#undef WREATH_NCCL_BOTH
#undef WREATH_NCCL_UNSIGNED

#ifdef __cplusplus
}
#endif
