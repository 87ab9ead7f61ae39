// cuGetProcAddress gives each function in the version that abi.hpp declares, whatever the driver now calls it.
#include "src/device/cuda/driver.hpp"

#include <fmt/format.h>

#include <string>

namespace wreath {
namespace {

// The signatures are those of CUDA 12.0, the oldest driver that has all these functions.
constexpr int kDeclaredVersion = 12000;

// Finds functions one after the other, and keeps the name of the first that is missing.
class Finder {
 public:
  using GetProcAddress = CudaResult(const char* name, void** function, int version, std::uint64_t flags, int* status);

  explicit Finder(GetProcAddress* get) : get_(get) {}

  template <typename Function>
  void operator()(const char* name, Function*& function) {
    void* found = nullptr;
    int status = 0;
    const CudaResult result = get_(name, &found, kDeclaredVersion, 0, &status);
    if ((result != kCudaSuccess || found == nullptr) && missing_.empty()) missing_ = name;
    function = reinterpret_cast<Function*>(found);
  }
  const std::string& missing() const { return missing_; }

 private:
  GetProcAddress* get_;
  std::string missing_;
};

void find_devices(Finder& find, CudaFunctions& functions) {
  find("cuInit", functions.init);
  find("cuGetErrorName", functions.get_error_name);
  find("cuGetErrorString", functions.get_error_string);
  find("cuDriverGetVersion", functions.driver_get_version);
  find("cuDeviceGetCount", functions.device_get_count);
  find("cuDeviceGet", functions.device_get);
  find("cuDeviceGetName", functions.device_get_name);
  find("cuDeviceGetPCIBusId", functions.device_get_pci_bus_id);
  find("cuDeviceGetAttribute", functions.device_get_attribute);
  find("cuDeviceGetUuid", functions.device_get_uuid);
  find("cuDeviceCanAccessPeer", functions.device_can_access_peer);
  find("cuDevicePrimaryCtxRetain", functions.device_primary_ctx_retain);
  find("cuDevicePrimaryCtxRelease", functions.device_primary_ctx_release);
  find("cuCtxPushCurrent", functions.ctx_push_current);
  find("cuCtxPopCurrent", functions.ctx_pop_current);
  find("cuCtxGetDevice", functions.ctx_get_device);
  find("cuCtxEnablePeerAccess", functions.ctx_enable_peer_access);
  find("cuCtxGetStreamPriorityRange", functions.ctx_get_stream_priority_range);
  find("cuThreadExchangeStreamCaptureMode", functions.thread_exchange_stream_capture_mode);
}

void find_memory(Finder& find, CudaFunctions& functions) {
  find("cuMemGetInfo", functions.mem_get_info);
  find("cuMemAlloc", functions.mem_alloc);
  find("cuMemFree", functions.mem_free);
  find("cuMemHostAlloc", functions.mem_host_alloc);
  find("cuMemFreeHost", functions.mem_free_host);
  find("cuMemHostRegister", functions.mem_host_register);
  find("cuMemHostUnregister", functions.mem_host_unregister);
  find("cuPointerGetAttributes", functions.pointer_get_attributes);
  find("cuMemcpyAsync", functions.memcpy_async);
  find("cuMemsetD8Async", functions.memset_d8_async);
}

void find_sharing(Finder& find, CudaFunctions& functions) {
  find("cuMemCreate", functions.mem_create);
  find("cuMemRelease", functions.mem_release);
  find("cuMemAddressReserve", functions.mem_address_reserve);
  find("cuMemAddressFree", functions.mem_address_free);
  find("cuMemMap", functions.mem_map);
  find("cuMemUnmap", functions.mem_unmap);
  find("cuMemSetAccess", functions.mem_set_access);
  find("cuMemGetAllocationGranularity", functions.mem_get_allocation_granularity);
  find("cuMemExportToShareableHandle", functions.mem_export_to_shareable_handle);
  find("cuMemImportFromShareableHandle", functions.mem_import_from_shareable_handle);
  find("cuMemRetainAllocationHandle", functions.mem_retain_allocation_handle);
  find("cuMemGetHandleForAddressRange", functions.mem_get_handle_for_address_range);
  find("cuFlushGPUDirectRDMAWrites", functions.flush_gpu_direct_rdma_writes);
  find("cuIpcGetMemHandle", functions.ipc_get_mem_handle);
  find("cuIpcOpenMemHandle", functions.ipc_open_mem_handle);
  find("cuIpcCloseMemHandle", functions.ipc_close_mem_handle);
}

void find_streams(Finder& find, CudaFunctions& functions) {
  find("cuStreamCreateWithPriority", functions.stream_create_with_priority);
  find("cuStreamDestroy", functions.stream_destroy);
  find("cuStreamQuery", functions.stream_query);
  find("cuStreamSynchronize", functions.stream_synchronize);
  find("cuStreamWaitEvent", functions.stream_wait_event);
  find("cuStreamIsCapturing", functions.stream_is_capturing);
  find("cuStreamWaitValue32", functions.stream_wait_value32);
  find("cuStreamWriteValue32", functions.stream_write_value32);
  find("cuStreamBeginCapture", functions.stream_begin_capture);
  find("cuStreamEndCapture", functions.stream_end_capture);
  find("cuGraphInstantiateWithFlags", functions.graph_instantiate_with_flags);
  find("cuGraphDestroy", functions.graph_destroy);
  find("cuGraphLaunch", functions.graph_launch);
  find("cuGraphExecDestroy", functions.graph_exec_destroy);
  find("cuEventCreate", functions.event_create);
  find("cuEventDestroy", functions.event_destroy);
  find("cuEventRecord", functions.event_record);
  find("cuEventQuery", functions.event_query);
  find("cuEventSynchronize", functions.event_synchronize);
  find("cuEventElapsedTime", functions.event_elapsed_time);
}

void find_kernels(Finder& find, CudaFunctions& functions) {
  find("cuModuleLoadData", functions.module_load_data);
  find("cuModuleUnload", functions.module_unload);
  find("cuModuleGetFunction", functions.module_get_function);
  find("cuOccupancyMaxActiveBlocksPerMultiprocessor", functions.occupancy_max_active_blocks_per_multiprocessor);
  find("cuLaunchKernel", functions.launch_kernel);
}

}  // namespace

Status CudaDriver::find_functions() {
  auto* const get = library_.find<Finder::GetProcAddress>("cuGetProcAddress_v2");
  if (get == nullptr) return Error{ErrorCode::Unavailable, "has no cuGetProcAddress_v2: it is older than CUDA 12"};
  Finder find(get);
  find_devices(find, *this);
  find_memory(find, *this);
  find_sharing(find, *this);
  find_streams(find, *this);
  find_kernels(find, *this);
  if (!find.missing().empty()) return Error{ErrorCode::Unavailable, "has no " + find.missing()};
  return {};
}

Result<std::unique_ptr<CudaDriver>> CudaDriver::load(const char* file) {
  auto library = SharedLibrary::open(file);
  if (!library) return library.error();
  std::unique_ptr<CudaDriver> driver(new CudaDriver(*std::move(library)));
  if (const Status found = driver->find_functions(); !found) {
    return Error{found.error().code, fmt::format("{}: {}", file, found.error().message)};
  }
  if (const Status begun = driver->check(driver->init(0), file, "cuInit"); !begun) {
    return Error{ErrorCode::Unavailable, begun.error().message};
  }
  return driver;
}

Status CudaDriver::check(CudaResult result, std::string_view where, std::string_view call) const {
  if (result == kCudaSuccess) return {};
  const char* its_name = nullptr;
  const char* text = nullptr;
  if (get_error_name(result, &its_name) != kCudaSuccess || get_error_string(result, &text) != kCudaSuccess) {
    return Error{ErrorCode::System, fmt::format("{}: {}: error {}", where, call, result)};
  }
  return Error{ErrorCode::System, fmt::format("{}: {}: {}: {}", where, call, its_name, text)};
}

}  // namespace wreath
