// Implements devices and their memory for the fake libcuda.so.1.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tests/support/fake_cuda/machine.hpp"

using namespace wreath;
using namespace wreath::test;

namespace {

const std::pair<const std::uintptr_t, Range>* find(std::uintptr_t address) {
  Machine& all = machine();
  const auto above = all.ranges.upper_bound(address);
  if (above == all.ranges.begin()) return nullptr;
  const auto& found = *std::prev(above);
  return address - found.first < found.second.bytes ? &found : nullptr;
}

bool in_host(const Range& range) {
  return range.origin == Origin::Pinned || range.origin == Origin::Registered ||
         range.origin == Origin::RegisteredReadOnly;
}

// Returns whether the kernel has mapped the page as writable.
bool is_writable(std::uintptr_t address) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char read = 0;
    char write = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %c%c", &begin, &end, &read, &write) != 4) continue;
    if (address >= begin && address < end) return write == 'w';
  }
  return false;
}

bool is_pageable(CudaAddress address) {
  const std::lock_guard lock(machine().mutex);
  return find(address) == nullptr;
}

std::size_t used() {
  std::size_t bytes = 0;
  for (const auto& [address, range] : machine().ranges) bytes += in_host(range) ? 0 : range.bytes;
  for (const auto& [handle, allocation] : machine().allocations) bytes += allocation.bytes;
  return bytes;
}

std::uintptr_t keep(void* address, Range range) {
  range.id = ++machine().next_range;
  machine().ranges[reinterpret_cast<std::uintptr_t>(address)] = range;
  ++machine().alive;
  return reinterpret_cast<std::uintptr_t>(address);
}

CudaResult make(Origin origin, std::size_t bytes, std::uintptr_t* address) {
  const std::lock_guard lock(machine().mutex);
  if (bytes == 0) return kCudaInvalidValue;
  if (bytes > kDeviceBytes || used() + bytes > kDeviceBytes) return kCudaOutOfMemory;
  void* const memory = ::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0xCD, bytes);  // a device's memory holds anything
  *address = keep(memory, {origin, bytes, current_device(), 0});
  return kCudaSuccess;
}

CudaResult free_range(std::uintptr_t address, Origin origin) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  const auto found = all.ranges.find(address);
  if (found == all.ranges.end() || found->second.origin != origin) return kCudaInvalidValue;
  std::free(reinterpret_cast<void*>(address));
  all.ranges.erase(found);
  --all.alive;
  return kCudaSuccess;
}

}  // namespace

extern "C" {

// ---- functions for tests ----

void fake_cuda_fail(const char* function, int result, int times) {
  const std::lock_guard lock(machine().mutex);
  machine().failures[function] = {result, times};
}
void fake_cuda_lose(int result) { machine().lost = result; }
void fake_cuda_set_kernel(const char* name, void (*kernel)(unsigned, unsigned, void**), std::size_t bytes) {
  const std::lock_guard lock(machine().mutex);
  machine().kernels[name] = {kernel, bytes};
}
void fake_cuda_set_attribute(int attribute, int value) { machine().attributes[attribute] = value; }
int fake_cuda_reaches(int device, const void* data) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  const auto* const found = find(reinterpret_cast<std::uintptr_t>(data));
  if (found == nullptr) return 0;
  const Range& range = found->second;
  if (in_host(range)) return range.origin == Origin::RegisteredReadOnly ? 1 : 2;
  if (range.origin == Origin::Mapped) return (range.access >> device & 1U) == 0 ? 0 : range.device == device ? 3 : 2;
  return range.device == device ? 3 : all.peers[device][range.device] ? 2 : 0;
}
int fake_cuda_alive() { return machine().alive; }
int fake_cuda_pointers_asked() { return machine().pointers_asked; }
void fake_cuda_program_captures(int does) { machine().program_captures = does != 0; }
void fake_cuda_other_process(int is) { machine().other_process = is != 0; }

// ---- devices ----

CudaResult cuInit(unsigned) { return std::getenv("FAKE_CUDA_NO_DEVICE") == nullptr ? kCudaSuccess : kCudaNoDevice; }
CudaResult cuGetErrorName(CudaResult result, const char** name) {
  *name = result == kCudaOutOfMemory    ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == kCudaNoDevice     ? "CUDA_ERROR_NO_DEVICE"
          : result == kCudaLaunchFailed ? "CUDA_ERROR_LAUNCH_FAILED"
                                        : nullptr;
  return *name == nullptr ? kCudaInvalidValue : kCudaSuccess;
}
CudaResult cuGetErrorString(CudaResult result, const char** text) {
  *text = result == kCudaOutOfMemory ? "out of memory"
          : result == kCudaNoDevice  ? "no CUDA-capable device is detected"
                                     : "unspecified launch failure";
  return kCudaSuccess;
}
CudaResult cuDriverGetVersion(int* version) { return *version = 13000, kCudaSuccess; }
CudaResult cuDeviceGetCount(int* count) {
  return *count = std::getenv("FAKE_CUDA_ONE_DEVICE") == nullptr ? kDevices : 1, kCudaSuccess;
}
CudaResult cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < kDevices ? kCudaSuccess : kCudaInvalidValue;
}
CudaResult cuDeviceGetName(char* name, int length, int) {
  std::strncpy(name, "fake", static_cast<std::size_t>(length));
  return kCudaSuccess;
}
CudaResult cuDeviceGetPCIBusId(char* name, int length, int device) {
  std::strncpy(name, device == 0 ? "0000:17:00.0" : "0000:97:00.0", static_cast<std::size_t>(length));
  return kCudaSuccess;
}
CudaResult cuDeviceGetAttribute(int* value, int attribute, int) {
  if (const auto set = machine().attributes.find(attribute); set != machine().attributes.end()) {
    return *value = set->second, asked_for("cuDeviceGetAttribute");
  }
  *value = attribute == kCudaMultiprocessors ? 4 : attribute == kCudaDescriptorsSupported;
  return asked_for("cuDeviceGetAttribute");
}
CudaResult cuDeviceGetUuid(CudaUuid* uuid, int device) {
  std::memset(uuid->bytes, 0x10 + device, sizeof uuid->bytes);
  return asked_for("cuDeviceGetUuid");
}
CudaResult cuDeviceCanAccessPeer(int* can, int, int) {
  // Any error that the test asks for means that it cannot.
  *can = asked_for("cuDeviceCanAccessPeer") == kCudaSuccess ? 1 : 0;
  return kCudaSuccess;
}
CudaResult cuDevicePrimaryCtxRetain(CudaHandle* context, int device) {
  if (const CudaResult result = asked_for("cuDevicePrimaryCtxRetain"); result != kCudaSuccess) return result;
  *context = &the_contexts[device];
  return kCudaSuccess;
}
CudaResult cuDevicePrimaryCtxRelease(int) { return kCudaSuccess; }
CudaResult cuCtxPushCurrent(CudaHandle context) { return current.push_back(context), kCudaSuccess; }
CudaResult cuCtxPopCurrent(CudaHandle* context) {
  if (current.empty()) return kCudaInvalidContext;
  *context = current.back();
  current.pop_back();
  return kCudaSuccess;
}
CudaResult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = kUrgent;
  return current.empty() ? kCudaInvalidContext : kCudaSuccess;
}
CudaResult cuThreadExchangeStreamCaptureMode(int* mode) { return std::swap(*mode, capture_mode), kCudaSuccess; }
CudaResult cuCtxGetDevice(int* device) {
  *device = current_device();
  return current.empty() ? kCudaInvalidContext : kCudaSuccess;
}
CudaResult cuCtxEnablePeerAccess(CudaHandle context, unsigned) {
  if (const CudaResult result = asked_for("cuCtxEnablePeerAccess"); result != kCudaSuccess) return result;
  const std::lock_guard lock(machine().mutex);
  bool& may = machine().peers[current_device()][static_cast<char*>(context) - the_contexts];
  return std::exchange(may, true) ? kCudaPeerAccessAlreadyEnabled : kCudaSuccess;
}

// ---- memory ----

CudaResult cuMemGetInfo(std::size_t* available, std::size_t* total) {
  const std::lock_guard lock(machine().mutex);
  *total = kDeviceBytes;
  *available = kDeviceBytes - used();
  return current.empty() ? kCudaInvalidContext : kCudaSuccess;
}
CudaResult cuMemAlloc(CudaAddress* address, std::size_t bytes) {
  if (current.empty()) return kCudaInvalidContext;
  if (const CudaResult result = asked_to_make("cuMemAlloc"); result != kCudaSuccess) return result;
  std::uintptr_t made = 0;
  const CudaResult result = make(Origin::Device, bytes, &made);
  *address = made;
  return result;
}
CudaResult cuMemFree(CudaAddress address) {
  const Drain drain("cuMemFree");
  return current.empty() ? kCudaInvalidContext : free_range(address, Origin::Device);
}
CudaResult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  if (current.empty()) return kCudaInvalidContext;
  if (const CudaResult result = asked_to_make("cuMemHostAlloc"); result != kCudaSuccess) return result;
  return make(Origin::Pinned, bytes, reinterpret_cast<std::uintptr_t*>(memory));
}
CudaResult cuMemFreeHost(void* memory) {
  const Drain drain("cuMemFreeHost");
  return current.empty() ? kCudaInvalidContext : free_range(reinterpret_cast<std::uintptr_t>(memory), Origin::Pinned);
}
CudaResult cuMemHostRegister(void* memory, std::size_t bytes, unsigned flags) {
  if (current.empty()) return kCudaInvalidContext;
  if (const CudaResult result = asked_to_make("cuMemHostRegister"); result != kCudaSuccess) return result;
  const std::lock_guard lock(machine().mutex);
  const auto first = reinterpret_cast<std::uintptr_t>(memory);
  const auto next = machine().ranges.lower_bound(first);
  const bool overlaps = next != machine().ranges.end() && next->first < first + bytes;
  if (overlaps || find(first) != nullptr) return kCudaAlreadyRegistered;
  if (first % 4096 != 0 || bytes % 4096 != 0) return kCudaInvalidValue;
  const bool reads_only = (flags & kCudaRegisterReadOnly) != 0;
  if (reads_only && machine().attributes[kCudaReadOnlyHostMemory] == 0) return kCudaNotSupported;
  if (!reads_only && !is_writable(first)) return kCudaInvalidValue;
  const Origin origin = (flags & kCudaRegisterReadOnly) == 0 ? Origin::Registered : Origin::RegisteredReadOnly;
  return keep(memory, {origin, bytes, current_device(), 0}), kCudaSuccess;
}
CudaResult cuMemHostUnregister(void* memory) {
  const Drain drain("cuMemHostUnregister");
  if (current.empty()) return kCudaInvalidContext;
  const std::lock_guard lock(machine().mutex);
  const auto found = machine().ranges.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == machine().ranges.end() || !in_host(found->second)) return kCudaInvalidValue;
  machine().ranges.erase(found);
  --machine().alive;
  return kCudaSuccess;
}
CudaResult cuPointerGetAttributes(unsigned count, int* attributes, void** data, CudaAddress address) {
  const std::lock_guard lock(machine().mutex);
  ++machine().pointers_asked;
  const auto* const found = find(address);
  for (unsigned i = 0; i < count; ++i) {
    const bool pinned = found != nullptr && in_host(found->second);
    switch (attributes[i]) {
      case kCudaMemoryType:
        *static_cast<unsigned*>(data[i]) = found == nullptr ? 0 : pinned ? kCudaMemoryHost : kCudaMemoryDevice;
        break;
      case kCudaIsManaged: *static_cast<unsigned*>(data[i]) = 0; break;
      case kCudaDeviceOrdinal: *static_cast<int*>(data[i]) = found == nullptr ? -2 : found->second.device; break;
      case kCudaRangeStart: *static_cast<CudaAddress*>(data[i]) = found == nullptr ? 0 : found->first; break;
      case kCudaBufferId: *static_cast<std::uint64_t*>(data[i]) = found == nullptr ? 0 : found->second.id; break;
      case kCudaRangeBytes: *static_cast<std::size_t*>(data[i]) = found == nullptr ? 0 : found->second.bytes; break;
      default: return kCudaInvalidValue;
    }
  }
  return kCudaSuccess;
}
CudaResult cuMemcpyAsync(CudaAddress target, CudaAddress source, std::size_t bytes, CudaHandle stream) {
  if (current.empty()) return kCudaInvalidContext;
  if (const CudaResult result = asked_for("cuMemcpyAsync"); result != kCudaSuccess) return result;
  if (is_pageable(target) || is_pageable(source)) {
    const Drain drain("cuMemcpyAsync of pageable memory", &stream_of(stream));
    std::memmove(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), bytes);
    return kCudaSuccess;
  }
  stream_of(stream).add(
      [=] { std::memmove(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), bytes); });
  return kCudaSuccess;
}
CudaResult cuMemsetD8Async(CudaAddress target, unsigned char value, std::size_t bytes, CudaHandle stream) {
  if (current.empty()) return kCudaInvalidContext;
  if (const CudaResult result = asked_for("cuMemsetD8Async"); result != kCudaSuccess) return result;
  stream_of(stream).add([=] { std::memset(reinterpret_cast<void*>(target), value, bytes); });
  return kCudaSuccess;
}

// ---- memory of several processes ----

CudaResult cuMemCreate(CudaAllocation* handle, std::size_t bytes, const CudaAllocationProperties* properties,
                       unsigned long long) {
  if (const CudaResult result = asked_to_make("cuMemCreate"); result != kCudaSuccess) return result;
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  if (bytes % kGrain != 0 || properties->handle_types != kCudaDescriptorHandle) return kCudaInvalidValue;
  if (bytes > kDeviceBytes || used() + bytes > kDeviceBytes) return kCudaOutOfMemory;
  const int descriptor = ::memfd_create("fake-cuda", MFD_CLOEXEC);
  if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) return kCudaOutOfMemory;
  *handle = all.next_allocation++;
  all.allocations[*handle] = {descriptor, bytes, properties->location.id};
  ++all.alive;
  return kCudaSuccess;
}
CudaResult cuMemRelease(CudaAllocation handle) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  const auto found = all.allocations.find(handle);
  if (found == all.allocations.end()) return kCudaInvalidValue;
  ::close(found->second.descriptor);
  all.allocations.erase(found);
  --all.alive;
  return kCudaSuccess;
}
CudaResult cuMemAddressReserve(CudaAddress* address, std::size_t bytes, std::size_t, CudaAddress, unsigned long long) {
  if (const CudaResult result = asked_for("cuMemAddressReserve"); result != kCudaSuccess) return result;
  void* const reserved = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) return kCudaOutOfMemory;
  ++machine().alive;
  *address = reinterpret_cast<CudaAddress>(reserved);
  return kCudaSuccess;
}
CudaResult cuMemAddressFree(CudaAddress address, std::size_t bytes) {
  --machine().alive;
  return ::munmap(reinterpret_cast<void*>(address), bytes) == 0 ? kCudaSuccess : kCudaInvalidValue;
}
CudaResult cuMemMap(CudaAddress address, std::size_t bytes, std::size_t, CudaAllocation handle, unsigned long long) {
  if (const CudaResult result = asked_for("cuMemMap"); result != kCudaSuccess) return result;
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  const auto found = all.allocations.find(handle);
  if (found == all.allocations.end()) return kCudaInvalidValue;
  void* const memory = reinterpret_cast<void*>(address);
  const int descriptor = ::fcntl(found->second.descriptor, F_DUPFD_CLOEXEC, 0);
  if (::mmap(memory, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, descriptor, 0) == MAP_FAILED) return kCudaInvalidValue;
  keep(memory, {Origin::Mapped, bytes, found->second.device, 0});
  const CudaAllocation own = all.next_allocation++;  // the mapping's reference
  all.allocations[own] = {descriptor, 0, found->second.device};
  all.mapped[address] = own;
  return kCudaSuccess;
}
CudaResult cuMemUnmap(CudaAddress address, std::size_t bytes) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  const auto found = all.mapped.find(address);
  if (found == all.mapped.end()) return kCudaInvalidValue;
  ::close(all.allocations[found->second].descriptor);
  all.allocations.erase(found->second);
  all.mapped.erase(found);
  all.ranges.erase(address);
  --all.alive;
  void* const memory = reinterpret_cast<void*>(address);
  ::mmap(memory, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return kCudaSuccess;
}
CudaResult cuMemSetAccess(CudaAddress address, std::size_t bytes, const CudaAccess* access, std::size_t) {
  if (const CudaResult result = asked_for("cuMemSetAccess"); result != kCudaSuccess) return result;
  const std::lock_guard lock(machine().mutex);
  const auto found = machine().ranges.find(address);
  if (found == machine().ranges.end() || access->flags != kCudaReadWrite) return kCudaInvalidValue;
  found->second.access |= 1U << access->location.id;
  return ::mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) == 0 ? kCudaSuccess
                                                                                          : kCudaInvalidValue;
}
CudaResult cuMemGetAllocationGranularity(std::size_t* grain, const CudaAllocationProperties*, int) {
  return *grain = kGrain, kCudaSuccess;
}
CudaResult cuMemExportToShareableHandle(void* out, CudaAllocation handle, int type, unsigned long long) {
  if (const CudaResult result = asked_for("cuMemExportToShareableHandle"); result != kCudaSuccess) return result;
  const std::lock_guard lock(machine().mutex);
  const auto found = machine().allocations.find(handle);
  if (found == machine().allocations.end() || type != kCudaDescriptorHandle) return kCudaInvalidValue;
  *static_cast<int*>(out) = ::fcntl(found->second.descriptor, F_DUPFD_CLOEXEC, 0);
  return kCudaSuccess;
}
CudaResult cuMemImportFromShareableHandle(CudaAllocation* handle, void* descriptor, int) {
  if (const CudaResult result = asked_for("cuMemImportFromShareableHandle"); result != kCudaSuccess) return result;
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  const int own = ::fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)), F_DUPFD_CLOEXEC, 0);
  if (own < 0) return kCudaInvalidValue;
  *handle = all.next_allocation++;
  all.allocations[*handle] = {own, 0, current_device()};
  ++all.alive;
  return kCudaSuccess;
}
CudaResult cuMemRetainAllocationHandle(CudaAllocation* handle, void* address) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  const auto found = all.mapped.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == all.mapped.end()) return kCudaInvalidValue;
  const Allocation mapped = all.allocations[found->second];
  *handle = all.next_allocation++;
  all.allocations[*handle] = {::fcntl(mapped.descriptor, F_DUPFD_CLOEXEC, 0), 0, mapped.device};
  ++all.alive;
  return kCudaSuccess;
}
// Returns the memfd of memory that cuMemCreate made.
CudaResult cuMemGetHandleForAddressRange(void* out, CudaAddress address, std::size_t, int type, unsigned long long) {
  if (current.empty()) return kCudaInvalidContext;
  if (const CudaResult result = asked_for("cuMemGetHandleForAddressRange"); result != kCudaSuccess) return result;
  const std::lock_guard lock(machine().mutex);
  const auto found = machine().mapped.find(address);
  if (found == machine().mapped.end() || type != kCudaDmaBufDescriptor) return kCudaInvalidValue;
  *static_cast<int*>(out) = ::fcntl(machine().allocations[found->second].descriptor, F_DUPFD_CLOEXEC, 0);
  return kCudaSuccess;
}
CudaResult cuFlushGPUDirectRDMAWrites(int, int scope) {
  if (current.empty() || scope != kCudaFlushToOwner) return kCudaInvalidContext;
  return asked_for("cuFlushGPUDirectRDMAWrites");
}
CudaResult cuIpcGetMemHandle(CudaIpcHandle* handle, CudaAddress address) {
  const std::lock_guard lock(machine().mutex);
  const auto found = machine().ranges.find(address);
  if (found == machine().ranges.end() || found->second.origin != Origin::Device) return kCudaInvalidValue;
  std::memcpy(handle->bytes, &address, sizeof address);
  std::memcpy(handle->bytes + sizeof address, &found->second.bytes, sizeof(std::size_t));
  return kCudaSuccess;
}
// Gives "another process" a copy of the memory as it is when it is opened.
CudaResult cuIpcOpenMemHandle(CudaAddress* address, CudaIpcHandle handle, unsigned) {
  if (const CudaResult result = asked_for("cuIpcOpenMemHandle"); result != kCudaSuccess) return result;
  if (!machine().other_process) return kCudaInvalidContext;
  CudaAddress source = 0;
  std::size_t bytes = 0;
  std::memcpy(&source, handle.bytes, sizeof source);
  std::memcpy(&bytes, handle.bytes + sizeof source, sizeof bytes);
  std::uintptr_t made = 0;
  const CudaResult result = make(Origin::Ipc, bytes, &made);
  if (result == kCudaSuccess) std::memcpy(reinterpret_cast<void*>(made), reinterpret_cast<const void*>(source), bytes);
  *address = made;
  return result;
}
CudaResult cuIpcCloseMemHandle(CudaAddress address) { return free_range(address, Origin::Ipc); }

}  // extern "C"
