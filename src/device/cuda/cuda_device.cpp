// Makes plain memory by cuMemAlloc and pinned memory by cuMemHostAlloc. Makes exportable memory by the virtual memory
// functions where the device has them.
#include "src/device/cuda/cuda_device.hpp"

#include <fmt/format.h>

#include "src/base/release_watcher.hpp"
#include "src/device/check_copy.hpp"
#include "src/device/cuda/cuda_stream.hpp"
#include "src/device/cuda/stream_waits.hpp"
#include "src/device/memory_in_use.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

// Waits for memory in use have this limit, because a lost device ends no grid.
constexpr std::int64_t kInUseMs = 2'000;

CudaAllocationProperties exportable_on(const CudaContext& context) {
  CudaAllocationProperties properties{};
  properties.type = kCudaPinnedAllocation;
  properties.handle_types = kCudaDescriptorHandle;
  properties.location = {kCudaAtDevice, context.number};
  int has_rdma = 0;
  context.driver.device_get_attribute(&has_rdma, kCudaRdmaOfMapped, context.device);
  // An adapter gets no dma-buf of the memory without this flag.
  properties.flags.rdma = has_rdma != 0 ? 1 : 0;
  return properties;
}

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(const CudaDriver& driver, int number) {
  std::unique_ptr<CudaDevice> device(new CudaDevice({driver, number, 0, nullptr, fmt::format("cuda:{}", number)}));
  CudaContext& context = device->context_;
  Status begun = context.check(driver.device_get(&context.device, number), "cuDeviceGet");
  if (begun) {
    begun =
        context.check(driver.device_primary_ctx_retain(&context.handle, context.device), "cuDevicePrimaryCtxRetain");
  }
  if (begun) begun = device->identify();
  if (begun) {
    int least = 0;
    const CudaResult asked =
        with_context(context, [&] { return driver.ctx_get_stream_priority_range(&least, &context.urgent); });
    begun = context.check(asked, "cuCtxGetStreamPriorityRange");
  }
  if (begun) {
    begun = context.check(with_context(context,
                                       [&] {
                                         return driver.stream_create_with_priority(
                                             &device->copies_, kCudaStreamNonBlocking, context.urgent);
                                       }),
                          "cuStreamCreateWithPriority");
  }
  if (begun) begun = device->words_->prepare();
  if (!begun) return Error{ErrorCode::Unavailable, begun.error().message};
  return device;
}

CudaDevice::~CudaDevice() {
  if (context_.handle == nullptr) return;
  words_.reset();
  with_context(context_, [&] {
    for (const auto& [image, module] : modules_) context_.driver.module_unload(module);
    return copies_ == nullptr ? kCudaSuccess : context_.driver.stream_destroy(copies_);
  });
  context_.driver.device_primary_ctx_release(context_.device);
}

Result<std::unique_ptr<Stream>> CudaDevice::make_stream() {
  auto stream = CudaStream::make(*this, context_, 0);
  if (!stream) return stream.error();
  return std::unique_ptr<Stream>(*std::move(stream));
}

// Streams of one priority share a few of the hardware's queues. A stream that waits there holds up those behind it.
Result<std::unique_ptr<Stream>> CudaDevice::make_urgent_stream() {
  auto stream = CudaStream::make(*this, context_, context_.urgent);
  if (!stream) return stream.error();
  return std::unique_ptr<Stream>(*std::move(stream));
}

std::shared_ptr<const void> CudaDevice::hold_frees() { return std::make_shared<StreamWait>(); }

Result<std::unique_ptr<Stream>> CudaDevice::use_stream(CudaHandle handle) {
  auto stream = CudaStream::use(*this, context_, handle);
  if (!stream) return stream.error();
  return std::unique_ptr<Stream>(*std::move(stream));
}

Result<std::unique_ptr<Event>> CudaDevice::make_event(EventUse use) {
  auto event = CudaEvent::make(context_, use);
  if (!event) return event.error();
  return std::unique_ptr<Event>(*std::move(event));
}

int CudaDevice::value_of(int attribute) const {
  int value = 0;
  const CudaResult asked = context_.driver.device_get_attribute(&value, attribute, context_.device);
  return asked == kCudaSuccess ? value : 0;
}

bool CudaDevice::has(int attribute) const { return value_of(attribute) != 0; }

Status CudaDevice::at_once(std::string_view call, const std::function<CudaResult()>& work) {
  const std::lock_guard lock(mutex_);
  const CurrentContext current(context_);
  WREATH_TRY(context_.check(current.result(), "cuCtxPushCurrent"));
  WREATH_TRY(context_.check(work(), call));
  return context_.check(context_.driver.stream_synchronize(copies_), call);
}

Status CudaDevice::copy(void* target, const void* source, std::size_t bytes) {
  if (bytes == 0) return {};
  WREATH_TRY(check_copy(*this, target, source, bytes));
  return at_once("cuMemcpyAsync", [&] {
    return context_.driver.memcpy_async(reinterpret_cast<CudaAddress>(target), reinterpret_cast<CudaAddress>(source),
                                        bytes, copies_);
  });
}

// ---- memory ----

Error CudaDevice::refused(const Error& error, std::size_t bytes) const {
  std::size_t available = 0;
  std::size_t total = 0;
  with_context(context_, [&] { return context_.driver.mem_get_info(&available, &total); });
  return {error.code, fmt::format("{}; {} bytes of memory were asked for, {} of {} are free", error.message, bytes,
                                  format_bytes(available), format_bytes(total))};
}

Result<CudaAddress> CudaDevice::make_plain(std::size_t bytes) {
  CudaAddress address = 0;
  WREATH_TRY(
      context_.check(with_context(context_, [&] { return context_.driver.mem_alloc(&address, bytes); }), "cuMemAlloc"));
  return address;
}

Result<CudaAddress> CudaDevice::make_pinned(std::size_t bytes) {
  const auto memory = allocate_pinned(context_, bytes);
  if (!memory) return memory.error();
  return reinterpret_cast<CudaAddress>(*memory);
}

Result<CudaAddress> CudaDevice::make_mapped(std::size_t bytes, std::size_t& reserved) {
  const CudaAllocationProperties properties = exportable_on(context_);
  std::size_t grain = 0;
  WREATH_TRY(
      context_.check(context_.driver.mem_get_allocation_granularity(&grain, &properties, kCudaMinimumGranularity),
                     "cuMemGetAllocationGranularity"));
  reserved = bytes > ~std::size_t{0} - grain ? bytes : (bytes + grain - 1) / grain * grain;
  CudaAllocation allocation = 0;
  WREATH_TRY(context_.check(
      with_context(context_, [&] { return context_.driver.mem_create(&allocation, reserved, &properties, 0); }),
      "cuMemCreate"));
  return map(allocation, reserved);
}

Result<CudaAddress> CudaDevice::map(CudaAllocation allocation, std::size_t bytes) {
  const CudaDriver& driver = context_.driver;
  const CudaAccess access{{kCudaAtDevice, context_.number}, kCudaReadWrite};
  CudaAddress address = 0;
  bool mapped = false;
  Status done = context_.check(driver.mem_address_reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
  if (done) {
    done = context_.check(driver.mem_map(address, bytes, 0, allocation, 0), "cuMemMap");
    mapped = static_cast<bool>(done);
  }
  if (done) done = context_.check(driver.mem_set_access(address, bytes, &access, 1), "cuMemSetAccess");
  driver.mem_release(allocation);  // the mapping keeps the allocation
  if (done) return address;
  if (mapped) driver.mem_unmap(address, bytes);
  if (address != 0) driver.mem_address_free(address, bytes);
  return done.error();
}

DeviceMemory CudaDevice::keep(CudaAddress address, std::size_t bytes, Entry entry) {
  const std::lock_guard lock(mutex_);
  memory_[address] = entry;
  return {*this, reinterpret_cast<std::byte*>(address), bytes};  // NOLINT(performance-no-int-to-ptr)
}

Result<CudaAddress> CudaDevice::make_address(std::size_t bytes, MemoryUse use, Entry& entry) {
  const auto once = [&] {
    switch (entry.origin) {
      case Origin::Pinned: return make_pinned(bytes);
      case Origin::Mapped: return make_mapped(bytes, entry.bytes);
      default: return make_plain(bytes);
    }
  };
  if (use == MemoryUse::Pinned) entry.origin = Origin::Pinned;
  if (use == MemoryUse::Exportable && has(kCudaDescriptorsSupported)) entry.origin = Origin::Mapped;
  auto address = once();
  if (!address && StreamWaits::of_process().settle(kInUseMs)) address = once();
  return address;
}

Result<DeviceMemory> CudaDevice::make(std::size_t bytes, MemoryUse use) {
  if (bytes == 0) return Error{ErrorCode::InvalidArgument, fmt::format("{}: bytes = 0", context_.name)};
  Entry entry{Origin::Allocated, bytes, use == MemoryUse::Exportable};
  const auto address = make_address(bytes, use, entry);
  if (!address) return refused(address.error(), bytes);
  if (use != MemoryUse::Pinned) {
    const Status cleared =
        at_once("cuMemsetD8Async", [&] { return context_.driver.memset_d8_async(*address, 0, bytes, copies_); });
    if (!cleared) {
      free(*address, entry);
      return cleared.error();
    }
  }
  return keep(*address, bytes, entry);
}

void CudaDevice::free(CudaAddress address, const Entry& entry) {
  StreamWaits::of_process().when_none([context = context_, address, entry] {
    const CudaDriver& driver = context.driver;
    with_context(context, [&] {
      switch (entry.origin) {
        case Origin::Allocated: return driver.mem_free(address);
        case Origin::Pinned:
          return driver.mem_free_host(reinterpret_cast<void*>(address));  // NOLINT(performance-no-int-to-ptr)
        case Origin::ImportedHandle: return driver.ipc_close_mem_handle(address);
        case Origin::Mapped: break;
      }
      driver.mem_unmap(address, entry.bytes);
      return driver.mem_address_free(address, entry.bytes);
    });
  });
}

void CudaDevice::release(std::byte* data, std::size_t) {
  const auto address = reinterpret_cast<CudaAddress>(data);
  tell_release(data);
  Entry entry{};
  {
    const std::lock_guard lock(mutex_);
    const auto found = memory_.find(address);
    if (found == memory_.end()) return;
    entry = found->second;
    memory_.erase(found);
  }
  if (entry.origin != Origin::Pinned) await_memory_in_use(kInUseMs);
  free(address, entry);
}

// ---- kernels ----

// Explains a refusal. A driver that is older than the compiler refuses an image in one of several ways.
Error CudaDevice::refused_image(CudaResult result, const Error& error) const {
  if (result != kCudaNoBinaryForGpu && result != kCudaInvalidImage && result != kCudaInvalidPtx &&
      result != kCudaUnsupportedPtx) {
    return error;
  }
  int version = 0;
  context_.driver.driver_get_version(&version);
  return {ErrorCode::Unavailable,
          fmt::format("{} (the driver is for CUDA up to {}.{}; kernels need one as new as the nvcc that built them)",
                      error.message, version / 1000, version % 1000 / 10)};
}

Result<CudaHandle> CudaDevice::function_of(const Kernel& kernel) {
  const std::lock_guard lock(mutex_);
  if (const auto found = functions_.find(kernel.name); found != functions_.end()) return found->second;
  if (kernel.image == nullptr) {
    return Error{
        ErrorCode::Unavailable,
        fmt::format("{}: this build has no CUDA kernels; with nvcc 'cmake -DWREATH_CUDA_TARGETS=90 BUILD_FOLDER && "
                    "cmake --build BUILD_FOLDER' adds them",
                    context_.name)};
  }
  const CurrentContext current(context_);
  CudaHandle& module = modules_[kernel.image];
  if (module == nullptr) {
    const CudaResult loaded = context_.driver.module_load_data(&module, kernel.image);
    if (const Status status = context_.check(loaded, "cuModuleLoadData"); !status) {
      modules_.erase(kernel.image);
      return refused_image(loaded, status.error());
    }
  }
  CudaHandle function = nullptr;
  WREATH_TRY(context_.check(context_.driver.module_get_function(&function, module, kernel.name), kernel.name));
  functions_[kernel.name] = function;
  return function;
}

Result<int> CudaDevice::resident_blocks(const Kernel& kernel, int threads) {
  const auto function = function_of(kernel);
  if (!function) return function.error();
  int each = 0;
  int processors = 0;
  const CudaResult asked = with_context(context_, [&] {
    return context_.driver.occupancy_max_active_blocks_per_multiprocessor(&each, *function, threads, 0);
  });
  WREATH_TRY(context_.check(asked, "cuOccupancyMaxActiveBlocksPerMultiprocessor"));
  WREATH_TRY(context_.check(context_.driver.device_get_attribute(&processors, kCudaMultiprocessors, context_.device),
                            "cuDeviceGetAttribute"));
  return each * processors;
}

Status CudaDevice::launch(Stream& stream, const Kernel& kernel, const Grid& grid) {
  auto* const own = dynamic_cast<CudaStream*>(&stream);
  if (own == nullptr || &own->device() != this) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("{}: a kernel was put into a stream of {}", context_.name, stream.device().name())};
  }
  const auto function = function_of(kernel);
  if (!function) return function.error();
  return own->launch(*function, grid);
}

Status CudaDevice::add_cuda_work(Stream& stream, const std::function<Status(void* cuda_stream)>& add) {
  auto* const own = dynamic_cast<CudaStream*>(&stream);
  if (own == nullptr || &own->device() != this) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("{}: work for a stream of {}", context_.name, stream.device().name())};
  }
  return own->add_others(add);
}

CudaPointer ask_pointer(const CudaDriver& driver, const void* data) {
  unsigned type = 0;
  unsigned managed = 0;
  CudaPointer facts;
  CudaAddress begin = 0;
  int attributes[] = {kCudaMemoryType, kCudaIsManaged,  kCudaDeviceOrdinal,
                      kCudaRangeStart, kCudaRangeBytes, kCudaBufferId};
  void* values[] = {&type, &managed, &facts.number, &begin, &facts.bytes, &facts.allocation};
  const CudaResult asked = driver.pointer_get_attributes(6, attributes, values, reinterpret_cast<CudaAddress>(data));
  if (asked != kCudaSuccess || (type != kCudaMemoryHost && type != kCudaMemoryDevice)) return {};
  facts.begin = reinterpret_cast<const std::byte*>(begin);  // NOLINT(performance-no-int-to-ptr)
  facts.kind = managed != 0 ? MemoryKind::Managed : type == kCudaMemoryHost ? MemoryKind::Pinned : MemoryKind::Device;
  return facts;
}

}  // namespace wreath
