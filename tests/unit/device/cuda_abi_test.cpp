// Compares our declarations of the CUDA driver's interface with cuda.h, where the toolkit is installed.
#include <gtest/gtest.h>

#include <cstddef>

#include "src/device/cuda/driver.hpp"
#include "tests/support/fake_cuda.hpp"

#if __has_include(<cudaTypedefs.h>)
#include <cuda.h>
#include <cudaTypedefs.h>

#include <tuple>
#include <type_traits>

namespace wreath {
namespace {

static_assert(kCudaSuccess == CUDA_SUCCESS);
static_assert(kCudaInvalidValue == CUDA_ERROR_INVALID_VALUE);
static_assert(kCudaOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kCudaNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kCudaInvalidContext == CUDA_ERROR_INVALID_CONTEXT);
static_assert(kCudaNoBinaryForGpu == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(kCudaInvalidImage == CUDA_ERROR_INVALID_IMAGE);
static_assert(kCudaInvalidPtx == CUDA_ERROR_INVALID_PTX);
static_assert(kCudaUnsupportedPtx == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
static_assert(kCudaRdmaOfMapped == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
static_assert(kCudaInvalidHandle == CUDA_ERROR_INVALID_HANDLE);
static_assert(kCudaNotFound == CUDA_ERROR_NOT_FOUND);
static_assert(kCudaNotReady == CUDA_ERROR_NOT_READY);
static_assert(kCudaPeerAccessAlreadyEnabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(kCudaAlreadyRegistered == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
static_assert(kCudaLaunchFailed == CUDA_ERROR_LAUNCH_FAILED);
static_assert(kCudaNotSupported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(kCudaMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kCudaSameHostAddress == CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
static_assert(kCudaReadOnlyHostMemory == CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
static_assert(kCudaDescriptorsSupported == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
static_assert(kCudaRdmaFlushOptions == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
static_assert(kCudaRdmaOrder == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
static_assert(kCudaDmaBufSupported == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
#if CUDA_VERSION >= 12040
static_assert(kCudaMpsEnabled == CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
#endif
static_assert(kCudaRdmaFlushByHost == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
static_assert(kCudaRdmaOrderOwner == CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
static_assert(kCudaDmaBufDescriptor == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
static_assert(kCudaFlushCurrent == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
static_assert(kCudaFlushToOwner == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
static_assert(kCudaMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(kCudaBufferId == CU_POINTER_ATTRIBUTE_BUFFER_ID);
static_assert(kCudaIsManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(kCudaDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(kCudaRangeStart == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
static_assert(kCudaRangeBytes == CU_POINTER_ATTRIBUTE_RANGE_SIZE);
static_assert(kCudaMemoryHost == CU_MEMORYTYPE_HOST);
static_assert(kCudaMemoryDevice == CU_MEMORYTYPE_DEVICE);
static_assert(kCudaHostPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(kCudaHostDeviceMap == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(kCudaRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(kCudaRegisterDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(kCudaRegisterReadOnly == CU_MEMHOSTREGISTER_READ_ONLY);
static_assert(kCudaStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kCudaEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kCudaIpcLazyPeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(kCudaWaitGreaterOrEqual == CU_STREAM_WAIT_VALUE_GEQ);
static_assert(kCudaCaptureRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(kCudaNotCapturing == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(sizeof(CudaUuid) == sizeof(CUuuid));
static_assert(kCudaDescriptorHandle == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(kCudaPinnedAllocation == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(kCudaAtDevice == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(kCudaReadWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(kCudaMinimumGranularity == CU_MEM_ALLOC_GRANULARITY_MINIMUM);
static_assert(sizeof(CudaIpcHandle) == sizeof(CUipcMemHandle));
static_assert(sizeof(CudaAccess) == sizeof(CUmemAccessDesc));
static_assert(offsetof(CudaAccess, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(CudaAllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(CudaAllocationProperties, handle_types) == offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(CudaAllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(CudaAllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));

// Says whether a caller and a callee pass two types alike: both are pointers, both whole numbers, or classes of one
// size.
template <typename Ours, typename Theirs>
constexpr bool kPassedAlike = std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>&& std::is_class_v<Ours> ==
                                  std::is_class_v<Theirs> &&
                              sizeof(Ours) == sizeof(Theirs);

template <typename Ours, typename Theirs>
constexpr bool kSameCall = false;
template <typename R, typename... Ours, typename S, typename... Theirs>
constexpr bool kSameCall<R (*)(Ours...), S (*)(Theirs...)> = [] {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs)) return (kPassedAlike<Ours, Theirs> && ...);
  return false;
}();

#define SAME(ours, theirs) static_assert(kSameCall<decltype(CudaFunctions::ours), theirs>)
SAME(init, PFN_cuInit_v2000);
SAME(get_error_name, PFN_cuGetErrorName_v6000);
SAME(get_error_string, PFN_cuGetErrorString_v6000);
SAME(driver_get_version, PFN_cuDriverGetVersion_v2020);
SAME(device_get_count, PFN_cuDeviceGetCount_v2000);
SAME(device_get, PFN_cuDeviceGet_v2000);
SAME(device_get_name, PFN_cuDeviceGetName_v2000);
SAME(device_get_pci_bus_id, PFN_cuDeviceGetPCIBusId_v4010);
SAME(device_get_attribute, PFN_cuDeviceGetAttribute_v2000);
SAME(device_get_uuid, PFN_cuDeviceGetUuid_v11040);
SAME(device_can_access_peer, PFN_cuDeviceCanAccessPeer_v4000);
SAME(device_primary_ctx_retain, PFN_cuDevicePrimaryCtxRetain_v7000);
SAME(device_primary_ctx_release, PFN_cuDevicePrimaryCtxRelease_v11000);
SAME(ctx_push_current, PFN_cuCtxPushCurrent_v4000);
SAME(ctx_pop_current, PFN_cuCtxPopCurrent_v4000);
SAME(ctx_get_device, PFN_cuCtxGetDevice_v2000);
SAME(ctx_enable_peer_access, PFN_cuCtxEnablePeerAccess_v4000);
SAME(ctx_get_stream_priority_range, PFN_cuCtxGetStreamPriorityRange_v5050);
SAME(thread_exchange_stream_capture_mode, PFN_cuThreadExchangeStreamCaptureMode_v10010);
SAME(mem_get_info, PFN_cuMemGetInfo_v3020);
SAME(mem_alloc, PFN_cuMemAlloc_v3020);
SAME(mem_free, PFN_cuMemFree_v3020);
SAME(mem_host_alloc, PFN_cuMemHostAlloc_v2020);
SAME(mem_free_host, PFN_cuMemFreeHost_v2000);
SAME(mem_host_register, PFN_cuMemHostRegister_v6050);
SAME(mem_host_unregister, PFN_cuMemHostUnregister_v4000);
SAME(pointer_get_attributes, PFN_cuPointerGetAttributes_v7000);
SAME(memcpy_async, PFN_cuMemcpyAsync_v4000);
SAME(memset_d8_async, PFN_cuMemsetD8Async_v3020);
SAME(mem_create, PFN_cuMemCreate_v10020);
SAME(mem_release, PFN_cuMemRelease_v10020);
SAME(mem_address_reserve, PFN_cuMemAddressReserve_v10020);
SAME(mem_address_free, PFN_cuMemAddressFree_v10020);
SAME(mem_map, PFN_cuMemMap_v10020);
SAME(mem_unmap, PFN_cuMemUnmap_v10020);
SAME(mem_set_access, PFN_cuMemSetAccess_v10020);
SAME(mem_get_allocation_granularity, PFN_cuMemGetAllocationGranularity_v10020);
SAME(mem_export_to_shareable_handle, PFN_cuMemExportToShareableHandle_v10020);
SAME(mem_import_from_shareable_handle, PFN_cuMemImportFromShareableHandle_v10020);
SAME(mem_retain_allocation_handle, PFN_cuMemRetainAllocationHandle_v11000);
SAME(mem_get_handle_for_address_range, PFN_cuMemGetHandleForAddressRange_v11070);
SAME(flush_gpu_direct_rdma_writes, PFN_cuFlushGPUDirectRDMAWrites_v11030);
SAME(ipc_get_mem_handle, PFN_cuIpcGetMemHandle_v4010);
SAME(ipc_open_mem_handle, PFN_cuIpcOpenMemHandle_v11000);
SAME(ipc_close_mem_handle, PFN_cuIpcCloseMemHandle_v4010);
SAME(stream_create_with_priority, PFN_cuStreamCreateWithPriority_v5050);
SAME(stream_destroy, PFN_cuStreamDestroy_v4000);
SAME(stream_query, PFN_cuStreamQuery_v2000);
SAME(stream_synchronize, PFN_cuStreamSynchronize_v2000);
SAME(stream_wait_event, PFN_cuStreamWaitEvent_v3020);
SAME(stream_is_capturing, PFN_cuStreamIsCapturing_v10000);
SAME(stream_wait_value32, PFN_cuStreamWaitValue32_v11070);
SAME(stream_write_value32, PFN_cuStreamWriteValue32_v11070);
SAME(stream_begin_capture, PFN_cuStreamBeginCapture_v10010);
SAME(stream_end_capture, PFN_cuStreamEndCapture_v10000);
SAME(graph_instantiate_with_flags, PFN_cuGraphInstantiateWithFlags_v11040);
SAME(graph_destroy, PFN_cuGraphDestroy_v10000);
SAME(graph_launch, PFN_cuGraphLaunch_v10000);
SAME(graph_exec_destroy, PFN_cuGraphExecDestroy_v10000);
SAME(event_create, PFN_cuEventCreate_v2000);
SAME(event_destroy, PFN_cuEventDestroy_v4000);
SAME(event_record, PFN_cuEventRecord_v2000);
SAME(event_query, PFN_cuEventQuery_v2000);
SAME(event_synchronize, PFN_cuEventSynchronize_v2000);
SAME(event_elapsed_time, PFN_cuEventElapsedTime_v2000);
SAME(module_load_data, PFN_cuModuleLoadData_v2000);
SAME(module_unload, PFN_cuModuleUnload_v2000);
SAME(module_get_function, PFN_cuModuleGetFunction_v2000);
SAME(occupancy_max_active_blocks_per_multiprocessor, PFN_cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050);
SAME(launch_kernel, PFN_cuLaunchKernel_v4000);
#undef SAME

constexpr int kChecked = 70;

// A function that driver.hpp declares and this file does not check makes this test fail.
TEST(CudaAbi, IsCudaHeadersOwn) { EXPECT_EQ(sizeof(CudaFunctions), kChecked * sizeof(void*)); }

}  // namespace
}  // namespace wreath

#else

TEST(CudaAbi, IsCudaHeadersOwn) { GTEST_SKIP() << "no cuda.h here: install the CUDA toolkit, and set WREATH_NVCC"; }

#endif
