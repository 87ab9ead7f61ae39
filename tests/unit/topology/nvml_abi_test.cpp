// The project's own declarations of NVIDIA's management library agree with nvml.h, where that is installed.
#include "src/topology/nvml_abi.hpp"

#include <gtest/gtest.h>

#include <cstddef>

#if __has_include(<nvml.h>)
#include <nvml.h>

namespace wreath {
namespace {

static_assert(kNvmlSuccess == NVML_SUCCESS);
static_assert(kNvmlInternal == NVML_TOPOLOGY_INTERNAL);
static_assert(kNvmlSingle == NVML_TOPOLOGY_SINGLE);
static_assert(kNvmlMultiple == NVML_TOPOLOGY_MULTIPLE);
static_assert(kNvmlHostBridge == NVML_TOPOLOGY_HOSTBRIDGE);
static_assert(kNvmlNode == NVML_TOPOLOGY_NODE);
static_assert(kNvmlSystem == NVML_TOPOLOGY_SYSTEM);
static_assert(kNvmlEnabled == NVML_FEATURE_ENABLED);
static_assert(kNvmlRemoteGpu == NVML_NVLINK_DEVICE_TYPE_GPU);
static_assert(kNvmlRemoteSwitch == NVML_NVLINK_DEVICE_TYPE_SWITCH);
static_assert(kNvmlUuidBytes >= NVML_DEVICE_UUID_V2_BUFFER_SIZE);
static_assert(sizeof(NvmlMemory) == sizeof(nvmlMemory_t));
static_assert(sizeof(NvmlPci) == sizeof(nvmlPciInfo_t));
static_assert(offsetof(NvmlPci, domain) == offsetof(nvmlPciInfo_t, domain));
static_assert(offsetof(NvmlPci, bus) == offsetof(nvmlPciInfo_t, bus));
static_assert(offsetof(NvmlPci, device) == offsetof(nvmlPciInfo_t, device));

TEST(NvmlAbi, IsItsHeadersOwn) { EXPECT_EQ(sizeof(NvmlFunctions), 11 * sizeof(void*)); }

}  // namespace
}  // namespace wreath

#else

TEST(NvmlAbi, IsItsHeadersOwn) { GTEST_SKIP() << "no nvml.h here: install cuda-nvml-dev beside the CUDA toolkit"; }

#endif
