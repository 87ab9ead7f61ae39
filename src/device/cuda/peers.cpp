// A CUDA device shares memory that other processes map. Devices of this process reach each other's memory here.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "src/device/cuda/cuda_device.hpp"
#include "src/device/cuda/host_memory.hpp"
#include "src/topology/nvml.hpp"

namespace wreath {
namespace {

EndpointDevice identity_of(const CudaUuid& uuid) {
  EndpointDevice identity{EndpointDevice::Kind::Cuda};
  std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), identity.uuid.begin());
  return identity;
}

}  // namespace

Status CudaDevice::identify() {
  CudaUuid uuid{};
  WREATH_TRY(context_.check(context_.driver.device_get_uuid(&uuid, context_.device), "cuDeviceGetUuid"));
  identity_ = identity_of(uuid);
  return {};
}

Status CudaDevice::reaches(const EndpointDevice& other) const {
  const CudaDriver& driver = context_.driver;
  if (other.kind != EndpointDevice::Kind::Cuda) {
    return Error{ErrorCode::Unavailable, fmt::format("{} reaches GPUs only", context_.name)};
  }
  if (other == identity_) return {};
  int devices = 0;
  WREATH_TRY(context_.check(driver.device_get_count(&devices), "cuDeviceGetCount"));
  for (int number = 0; number < devices; ++number) {
    int device = 0;
    CudaUuid uuid{};
    WREATH_TRY(context_.check(driver.device_get(&device, number), "cuDeviceGet"));
    WREATH_TRY(context_.check(driver.device_get_uuid(&uuid, device), "cuDeviceGetUuid"));
    if (identity_of(uuid) != other) continue;
    int can = 0;
    WREATH_TRY(context_.check(driver.device_can_access_peer(&can, context_.device, device), "cuDeviceCanAccessPeer"));
    if (can != 0) return {};
    return Error{ErrorCode::Unavailable, fmt::format("{} cannot access cuda:{}, which it reaches by {}", context_.name,
                                                     number, way_to(device))};
  }
  // CUDA_VISIBLE_DEVICES hides the other device from this process.
  return {};
}

// Returns NVML's name for the link, for people to read, where NVML is installed.
std::string CudaDevice::way_to(int device) const {
  const auto address_of = [&](int of) {
    std::array<char, 32> text{};
    const CudaResult asked = context_.driver.device_get_pci_bus_id(text.data(), static_cast<int>(text.size() - 1), of);
    return asked == kCudaSuccess ? std::string(text.data()) : std::string();
  };
  const auto nvml = Nvml::open();
  if (!nvml) return fmt::format("a way that nobody knows ({})", nvml.error().message);
  return link_text((*nvml)->link(address_of(context_.device), address_of(device)));
}

Status CudaDevice::let_use(const void* data, LibraryDevice& reader) {
  auto* const other = dynamic_cast<CudaDevice*>(&reader);
  if (other == this) return {};
  if (other == nullptr) return reader.reaches(identity_);
  WREATH_TRY(other->reaches(identity_));
  const CudaDriver& driver = context_.driver;
  const auto address = reinterpret_cast<CudaAddress>(data);
  {
    const std::lock_guard lock(mutex_);
    const auto above = memory_.upper_bound(address);
    const bool found = above != memory_.begin() && address - std::prev(above)->first < std::prev(above)->second.bytes;
    if (found && std::prev(above)->second.origin == Origin::Mapped) {
      const auto& [begin, entry] = *std::prev(above);
      const CudaAccess access{{kCudaAtDevice, other->context_.number}, kCudaReadWrite};
      return context_.check(driver.mem_set_access(begin, entry.bytes, &access, 1), "cuMemSetAccess");
    }
  }
  const CudaResult enabled =
      with_context(other->context_, [&] { return driver.ctx_enable_peer_access(context_.handle, 0); });
  if (enabled == kCudaPeerAccessAlreadyEnabled) return {};
  return other->context_.check(enabled, "cuCtxEnablePeerAccess");
}

Result<std::shared_ptr<const void>> CudaDevice::let_in(const HostPages& pages) {
  if (!has(kCudaSameHostAddress)) {
    return Error{ErrorCode::Unavailable,
                 fmt::format("{} does not reach memory of the host at the host's addresses", context_.name)};
  }
  return register_host_memory(context_, pages, has(kCudaReadOnlyHostMemory));
}

Status CudaDevice::copy_in_kernels(void* target, const void* source, std::size_t bytes) {
  return at_once("cuMemcpyAsync", [&] {
    return context_.driver.memcpy_async(reinterpret_cast<CudaAddress>(target), reinterpret_cast<CudaAddress>(source),
                                        bytes, copies_);
  });
}

// ---- memory that adapters reach ----

Result<DmaBuf> CudaDevice::dma_buf(const std::byte* begin) {
  if (!has(kCudaDmaBufSupported)) {
    return Error{ErrorCode::Unavailable, fmt::format("{} has no dma-buf of its memory", context_.name)};
  }
  const CudaPointer facts = ask_pointer(context_.driver, begin);
  int descriptor = -1;
  const CudaResult given = with_context(context_, [&] {
    return context_.driver.mem_get_handle_for_address_range(&descriptor, reinterpret_cast<CudaAddress>(facts.begin),
                                                            facts.bytes, kCudaDmaBufDescriptor, 0);
  });
  if (const Status status = context_.check(given, "cuMemGetHandleForAddressRange"); !status) {
    return Error{ErrorCode::Unavailable, status.error().message};
  }
  return DmaBuf{Fd::of_process(descriptor), 0, facts.bytes, context_.number};
}

Status CudaDevice::flush_adapter_writes() {
  if (value_of(kCudaRdmaOrder) >= kCudaRdmaOrderOwner) return {};
  if ((value_of(kCudaRdmaFlushOptions) & kCudaRdmaFlushByHost) == 0) {
    return Error{ErrorCode::Unavailable,
                 fmt::format("{} neither orders the writes of adapters nor flushes them", context_.name)};
  }
  const CudaResult flushed = with_context(
      context_, [&] { return context_.driver.flush_gpu_direct_rdma_writes(kCudaFlushCurrent, kCudaFlushToOwner); });
  return context_.check(flushed, "cuFlushGPUDirectRDMAWrites");
}

// ---- memory of several processes ----

bool CudaDevice::is_exportable(const void* begin) const {
  const std::lock_guard lock(mutex_);
  const auto found = memory_.find(reinterpret_cast<CudaAddress>(begin));
  return found != memory_.end() && found->second.exportable;
}

Result<MemoryExport> CudaDevice::export_memory(const void* data) {
  const CudaDriver& driver = context_.driver;
  const CudaPointer facts = ask_pointer(driver, data);
  if (facts.kind != MemoryKind::Device || facts.number != context_.number) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{}: {} is not its memory", context_.name, data)};
  }
  MemoryExport exported;
  exported.bytes = facts.bytes;
  exported.offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - facts.begin);
  const CurrentContext current(context_);
  auto* const begin = const_cast<std::byte*>(facts.begin);
  CudaAllocation allocation = 0;
  if (driver.mem_retain_allocation_handle(&allocation, begin) == kCudaSuccess) {
    int descriptor = -1;
    const CudaResult result = driver.mem_export_to_shareable_handle(&descriptor, allocation, kCudaDescriptorHandle, 0);
    driver.mem_release(allocation);
    WREATH_TRY(context_.check(result, "cuMemExportToShareableHandle"));
    exported.descriptor = Fd::of_process(descriptor);
    return exported;
  }
  CudaIpcHandle handle{};
  WREATH_TRY(
      context_.check(driver.ipc_get_mem_handle(&handle, reinterpret_cast<CudaAddress>(begin)), "cuIpcGetMemHandle"));
  std::memcpy(exported.handle.data(), handle.bytes, sizeof handle.bytes);
  return exported;
}

Result<DeviceMemory> CudaDevice::import_memory(const MemoryExport& exported) {
  const CudaDriver& driver = context_.driver;
  const CurrentContext current(context_);
  if (exported.descriptor) {
    CudaAllocation allocation = 0;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    void* const descriptor = reinterpret_cast<void*>(static_cast<std::intptr_t>(exported.descriptor.get()));
    WREATH_TRY(context_.check(driver.mem_import_from_shareable_handle(&allocation, descriptor, kCudaDescriptorHandle),
                              "cuMemImportFromShareableHandle"));
    const auto address = map(allocation, exported.bytes);
    if (!address) return address.error();
    return keep(*address, exported.bytes, {Origin::Mapped, exported.bytes});
  }
  CudaIpcHandle handle{};
  std::memcpy(handle.bytes, exported.handle.data(), sizeof handle.bytes);
  CudaAddress address = 0;
  const CudaResult result = driver.ipc_open_mem_handle(&address, handle, kCudaIpcLazyPeerAccess);
  if (result == kCudaInvalidContext) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("{}: memory of this process was to be imported: it is there already", context_.name)};
  }
  WREATH_TRY(context_.check(result, "cuIpcOpenMemHandle"));
  return keep(address, exported.bytes, {Origin::ImportedHandle, exported.bytes});
}

}  // namespace wreath
