// The platform is opened once and never closed, because the driver's own threads outlive the program's last objects.
#include "src/device/cuda/platform.hpp"

#include <fmt/format.h>

#include <atomic>

#include "src/device/call_memory.hpp"

namespace wreath {
namespace {

std::atomic<CudaPlatform*> the_opened{nullptr};

using Opened = Result<std::unique_ptr<CudaPlatform>>;

const Opened* open_for_good() {
  auto* const opened = new Opened(CudaPlatform::open("libcuda.so.1"));  // NOLINT(cppcoreguidelines-owning-memory)
  if (*opened) {
    may_have_device_memory.store(true, std::memory_order_relaxed);
    the_opened.store((*opened)->get(), std::memory_order_release);
  }
  return opened;
}

}  // namespace

Result<std::unique_ptr<CudaPlatform>> CudaPlatform::open(const char* file) {
  auto driver = CudaDriver::load(file);
  if (!driver) return driver.error();
  int devices = 0;
  const Status counted = (*driver)->check((*driver)->device_get_count(&devices), file, "cuDeviceGetCount");
  if (!counted) return Error{ErrorCode::Unavailable, counted.error().message};
  if (devices == 0) return Error{ErrorCode::Unavailable, fmt::format("{}: there is no CUDA device", file)};
  return std::unique_ptr<CudaPlatform>(new CudaPlatform(*std::move(driver), devices));
}

const Result<std::unique_ptr<CudaPlatform>>& CudaPlatform::get() {
  static const Opened* const opened = open_for_good();
  return *opened;
}

CudaPlatform* CudaPlatform::opened() noexcept { return the_opened.load(std::memory_order_acquire); }

Result<CudaDevice*> CudaPlatform::device(int number) {
  if (number < 0 || number >= devices()) {
    return Error{ErrorCode::InvalidArgument, fmt::format("CUDA device {}: there are {}", number, devices())};
  }
  const std::lock_guard lock(mutex_);
  auto& device = devices_[static_cast<std::size_t>(number)];
  if (device == nullptr) {
    auto opened = CudaDevice::open(*driver_, number);
    if (!opened) return opened.error();
    device = *std::move(opened);
  }
  return device.get();
}

PointerFacts CudaPlatform::facts_of(const void* data) {
  const CudaPointer found = ask_pointer(*driver_, data);
  if (found.kind == MemoryKind::Host) return {};
  const auto its = device(found.number);
  return {found.kind, its ? *its : nullptr, found.begin, found.bytes, found.allocation};
}

PointerFacts cuda_facts_of(const void* data) {
  CudaPlatform* const cuda = CudaPlatform::opened();
  return cuda == nullptr ? PointerFacts{} : cuda->facts_of(data);
}

Device* CudaPlatform::current() {
  int current = -1;
  if (driver_->ctx_get_device(&current) != kCudaSuccess) return nullptr;
  for (int number = 0; number < devices(); ++number) {
    int its = -1;
    if (driver_->device_get(&its, number) != kCudaSuccess || its != current) continue;
    const auto found = device(number);
    return found ? *found : nullptr;
  }
  return nullptr;
}

Device* current_cuda_device() {
  if (CudaPlatform::opened() == nullptr && !SharedLibrary::is_loaded("libcuda.so.1")) return nullptr;
  const auto& platform = CudaPlatform::get();
  return platform ? (*platform)->current() : nullptr;
}

Result<std::unique_ptr<Stream>> use_cuda_stream(Device& device, void* stream) {
  auto* const cuda = dynamic_cast<CudaDevice*>(&device);
  if (cuda != nullptr) return cuda->use_stream(stream);
  return Error{ErrorCode::InvalidArgument, fmt::format("use_cuda_stream: {} is no CUDA device", device.name()), -1};
}

Result<int> cuda_devices() {
  const auto& platform = CudaPlatform::get();
  if (!platform) return platform.error();
  return (*platform)->devices();
}

Result<Device*> cuda_device(int number) {
  const auto& platform = CudaPlatform::get();
  if (!platform) return platform.error();
  const auto device = (*platform)->device(number);
  if (!device) return device.error();
  return static_cast<Device*>(*device);
}

}  // namespace wreath
