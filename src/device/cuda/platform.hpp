// The CUDA devices of this process. The driver is loaded at the first question, and each number has one device.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "src/device/cuda/cuda_device.hpp"

namespace wreath {

class CudaPlatform {
 public:
  // Returns Unavailable where there is no driver `file`, where the driver refuses, or where there is no device.
  static Result<std::unique_ptr<CudaPlatform>> open(const char* file);
  // Returns the process's own platform, of libcuda.so.1. The first answer stays.
  static const Result<std::unique_ptr<CudaPlatform>>& get();
  // Returns the platform that get() opened, or null where there is none. Without it no memory of this process counts as
  // CUDA's.
  static CudaPlatform* opened() noexcept;

  int devices() const { return static_cast<int>(devices_.size()); }
  // Opens the device at its first use. Returns InvalidArgument where there is no such number.
  Result<CudaDevice*> device(int number);
  // Returns the device of the context that is current in this thread, or null where none is.
  Device* current();
  PointerFacts facts_of(const void* data);

 private:
  CudaPlatform(std::unique_ptr<CudaDriver> driver, int devices)
      : driver_(std::move(driver)), devices_(static_cast<std::size_t>(devices)) {}

  std::unique_ptr<CudaDriver> driver_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<CudaDevice>> devices_;
};

// Returns the facts of memory that CUDA knows. The kind is Host for other memory, and while nobody has opened the
// platform.
PointerFacts cuda_facts_of(const void* data);

}  // namespace wreath
