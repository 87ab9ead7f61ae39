// Prints every size, offset, value and initializer of the nccl.h that it is compiled with.
#include <nccl.h>
#include <stddef.h>
#include <stdio.h>

#define VALUE(x) printf(#x " %ld\n", (long)(x))
#define FIELD(type, field) printf(#type "." #field " %zu %zu\n", offsetof(type, field), sizeof(((type*)NULL)->field))

static void bytes(const char* name, const void* data, size_t count) {
  printf("%s ", name);
  for (size_t i = 0; i < count; ++i) printf("%02x", ((const unsigned char*)data)[i]);
  printf("\n");
}

static void structs(void) {
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  const ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  bytes("config", &config, sizeof config);
  bytes("info", &info, offsetof(ncclSimInfo_t, estimatedTime) + sizeof info.estimatedTime);
  FIELD(ncclConfig_t, size);
  FIELD(ncclConfig_t, magic);
  FIELD(ncclConfig_t, version);
  FIELD(ncclConfig_t, blocking);
  FIELD(ncclConfig_t, cgaClusterSize);
  FIELD(ncclConfig_t, minCTAs);
  FIELD(ncclConfig_t, maxCTAs);
  FIELD(ncclConfig_t, netName);
  FIELD(ncclConfig_t, splitShare);
  FIELD(ncclConfig_t, trafficClass);
  FIELD(ncclConfig_t, commName);
  FIELD(ncclConfig_t, collnetEnable);
  FIELD(ncclConfig_t, CTAPolicy);
  FIELD(ncclConfig_t, shrinkShare);
  FIELD(ncclConfig_t, nvlsCTAs);
  FIELD(ncclConfig_t, nChannelsPerNetPeer);
  FIELD(ncclConfig_t, nvlinkCentricSched);
  FIELD(ncclSimInfo_t, size);
  FIELD(ncclSimInfo_t, magic);
  FIELD(ncclSimInfo_t, version);
  FIELD(ncclSimInfo_t, estimatedTime);
  FIELD(ncclUniqueId, internal);
}

static void enumerations(void) {
  const long values[] = {ncclSuccess,
                         ncclUnhandledCudaError,
                         ncclSystemError,
                         ncclInternalError,
                         ncclInvalidArgument,
                         ncclInvalidUsage,
                         ncclRemoteError,
                         ncclInProgress,
                         ncclNumResults,
                         ncclInt8,
                         ncclChar,
                         ncclUint8,
                         ncclInt32,
                         ncclInt,
                         ncclUint32,
                         ncclInt64,
                         ncclUint64,
                         ncclFloat16,
                         ncclHalf,
                         ncclFloat32,
                         ncclFloat,
                         ncclFloat64,
                         ncclDouble,
                         ncclBfloat16,
                         ncclFloat8e4m3,
                         ncclFloat8e5m2,
                         ncclNumTypes,
                         ncclSum,
                         ncclProd,
                         ncclMax,
                         ncclMin,
                         ncclAvg,
                         ncclNumOps,
                         ncclMaxRedOp,
                         ncclNumOps_dummy,
                         ncclScalarDevice,
                         ncclScalarHostImmediate};
  for (size_t i = 0; i < sizeof values / sizeof *values; ++i) printf("value %zu: %ld\n", i, values[i]);
  VALUE(sizeof(ncclResult_t));
  VALUE(sizeof(ncclDataType_t));
  VALUE(sizeof(ncclRedOp_t));
  VALUE(sizeof(ncclScalarResidence_t));
}

int main(void) {
  structs();
  enumerations();
  VALUE(NCCL_MAJOR);
  VALUE(NCCL_MINOR);
  VALUE(NCCL_VERSION_CODE);
  VALUE(NCCL_VERSION(2, 8, 3));
  VALUE(NCCL_UNIQUE_ID_BYTES);
  VALUE(NCCL_CONFIG_UNDEF_INT);
  VALUE(NCCL_CONFIG_UNDEF_PTR == NULL && NCCL_COMM_NULL == NULL);
  VALUE(NCCL_SPLIT_NOCOLOR);
  VALUE(NCCL_UNDEF_FLOAT);
  VALUE(NCCL_WIN_DEFAULT);
  VALUE(NCCL_WIN_COLL_SYMMETRIC);
  VALUE(NCCL_WIN_REQUIRED_ALIGNMENT);
  VALUE(NCCL_CTA_POLICY_DEFAULT);
  VALUE(NCCL_CTA_POLICY_EFFICIENCY);
  VALUE(NCCL_CTA_POLICY_ZERO);
  VALUE(NCCL_SHRINK_DEFAULT);
  VALUE(NCCL_SHRINK_ABORT);
  VALUE(NCCL_REVOKE_DEFAULT);
  return 0;
}
