// Finds the CUDA driver's functions in libcuda.so.1 while the program runs. Nothing links that library.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "src/base/shared_library.hpp"
#include "src/device/cuda/abi.hpp"
#include "wreath/result.hpp"

namespace wreath {

// The functions as cuda.h declares them, by the same names without `cu`. They are set once, then read by any thread.
struct CudaFunctions {
  CudaResult (*init)(unsigned flags);
  CudaResult (*get_error_name)(CudaResult, const char**);
  CudaResult (*get_error_string)(CudaResult, const char**);
  CudaResult (*driver_get_version)(int*);
  CudaResult (*device_get_count)(int*);
  CudaResult (*device_get)(int* device, int ordinal);
  CudaResult (*device_get_name)(char*, int length, int device);
  CudaResult (*device_get_pci_bus_id)(char*, int length, int device);
  CudaResult (*device_get_attribute)(int*, int attribute, int device);
  CudaResult (*device_get_uuid)(CudaUuid*, int device);
  CudaResult (*device_can_access_peer)(int*, int device, int peer);
  CudaResult (*device_primary_ctx_retain)(CudaHandle*, int device);
  CudaResult (*device_primary_ctx_release)(int device);
  CudaResult (*ctx_push_current)(CudaHandle);
  CudaResult (*ctx_pop_current)(CudaHandle*);
  CudaResult (*ctx_get_device)(int* device);
  CudaResult (*ctx_enable_peer_access)(CudaHandle peer, unsigned flags);
  CudaResult (*ctx_get_stream_priority_range)(int* least, int* greatest);
  CudaResult (*thread_exchange_stream_capture_mode)(int* mode);

  CudaResult (*mem_get_info)(std::size_t* free, std::size_t* total);
  CudaResult (*mem_alloc)(CudaAddress*, std::size_t bytes);
  CudaResult (*mem_free)(CudaAddress);
  CudaResult (*mem_host_alloc)(void**, std::size_t bytes, unsigned flags);
  CudaResult (*mem_free_host)(void*);
  CudaResult (*mem_host_register)(void*, std::size_t bytes, unsigned flags);
  CudaResult (*mem_host_unregister)(void*);
  CudaResult (*pointer_get_attributes)(unsigned count, int* attributes, void** data, CudaAddress);
  CudaResult (*memcpy_async)(CudaAddress target, CudaAddress source, std::size_t bytes, CudaHandle stream);
  CudaResult (*memset_d8_async)(CudaAddress, unsigned char value, std::size_t bytes, CudaHandle stream);

  CudaResult (*mem_create)(CudaAllocation*, std::size_t bytes, const CudaAllocationProperties*, unsigned long long);
  CudaResult (*mem_release)(CudaAllocation);
  CudaResult (*mem_address_reserve)(CudaAddress*, std::size_t bytes, std::size_t alignment, CudaAddress near,
                                    unsigned long long flags);
  CudaResult (*mem_address_free)(CudaAddress, std::size_t bytes);
  CudaResult (*mem_map)(CudaAddress, std::size_t bytes, std::size_t offset, CudaAllocation, unsigned long long flags);
  CudaResult (*mem_unmap)(CudaAddress, std::size_t bytes);
  CudaResult (*mem_set_access)(CudaAddress, std::size_t bytes, const CudaAccess*, std::size_t count);
  CudaResult (*mem_get_allocation_granularity)(std::size_t*, const CudaAllocationProperties*, int which);
  CudaResult (*mem_export_to_shareable_handle)(void* handle, CudaAllocation, int type, unsigned long long flags);
  CudaResult (*mem_import_from_shareable_handle)(CudaAllocation*, void* handle, int type);
  CudaResult (*mem_retain_allocation_handle)(CudaAllocation*, void* address);
  CudaResult (*mem_get_handle_for_address_range)(void* handle, CudaAddress, std::size_t bytes, int type,
                                                 unsigned long long flags);
  CudaResult (*flush_gpu_direct_rdma_writes)(int target, int scope);
  CudaResult (*ipc_get_mem_handle)(CudaIpcHandle*, CudaAddress);
  CudaResult (*ipc_open_mem_handle)(CudaAddress*, CudaIpcHandle, unsigned flags);
  CudaResult (*ipc_close_mem_handle)(CudaAddress);

  CudaResult (*stream_create_with_priority)(CudaHandle*, unsigned flags, int priority);
  CudaResult (*stream_destroy)(CudaHandle);
  CudaResult (*stream_query)(CudaHandle);
  CudaResult (*stream_synchronize)(CudaHandle);
  CudaResult (*stream_is_capturing)(CudaHandle, int* status);
  CudaResult (*stream_wait_event)(CudaHandle stream, CudaHandle event, unsigned flags);
  CudaResult (*stream_wait_value32)(CudaHandle stream, CudaAddress, std::uint32_t value, unsigned flags);
  CudaResult (*stream_write_value32)(CudaHandle stream, CudaAddress, std::uint32_t value, unsigned flags);
  CudaResult (*stream_begin_capture)(CudaHandle stream, int mode);
  CudaResult (*stream_end_capture)(CudaHandle stream, CudaHandle* graph);
  CudaResult (*graph_instantiate_with_flags)(CudaHandle* executable, CudaHandle graph, unsigned long long flags);
  CudaResult (*graph_destroy)(CudaHandle);
  CudaResult (*graph_launch)(CudaHandle executable, CudaHandle stream);
  CudaResult (*graph_exec_destroy)(CudaHandle);
  CudaResult (*event_create)(CudaHandle*, unsigned flags);
  CudaResult (*event_destroy)(CudaHandle);
  CudaResult (*event_record)(CudaHandle event, CudaHandle stream);
  CudaResult (*event_query)(CudaHandle);
  CudaResult (*event_synchronize)(CudaHandle);
  CudaResult (*event_elapsed_time)(float* ms, CudaHandle from, CudaHandle to);

  CudaResult (*module_load_data)(CudaHandle*, const void* image);
  CudaResult (*module_unload)(CudaHandle);
  CudaResult (*module_get_function)(CudaHandle*, CudaHandle module, const char* name);
  CudaResult (*occupancy_max_active_blocks_per_multiprocessor)(int*, CudaHandle function, int threads,
                                                               std::size_t shared_bytes);
  CudaResult (*launch_kernel)(CudaHandle function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                              unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,
                              CudaHandle stream, void** arguments, void** extra);
};

// The driver after it was loaded and initialised.
class CudaDriver : public CudaFunctions {
 public:
  // Loads `file` and initialises it. Returns Unavailable where there is no such file, where it is too old, or where it
  // refuses; the message says which.
  static Result<std::unique_ptr<CudaDriver>> load(const char* file = "libcuda.so.1");

  // Returns success, or System with "`where`: `call`: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure".
  Status check(CudaResult result, std::string_view where, std::string_view call) const;

 private:
  explicit CudaDriver(SharedLibrary library) : CudaFunctions{}, library_(std::move(library)) {}
  Status find_functions();

  SharedLibrary library_;
};

}  // namespace wreath
