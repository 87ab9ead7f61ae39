// The CUDA devices of this process: the driver, loaded at the first question, and a device for each number.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "src/device/cuda/cuda_device.hpp"

namespace wreath {

class CudaPlatform {
 public:
  // Unavailable: no driver `file`, one that refuses, or no device.
  static Result<std::unique_ptr<CudaPlatform>> open(const char* file);
  // The process's own, of libcuda.so.1; the first answer stays.
  static const Result<std::unique_ptr<CudaPlatform>>& get();
  // As get(), but null unless somebody has asked before: without it no memory of this process is CUDA's to us.
  static CudaPlatform* opened() noexcept;

  int devices() const { return static_cast<int>(devices_.size()); }
  // Opened at the first use. InvalidArgument where there is no such number.
  Result<CudaDevice*> device(int number);
  // The device of the context that is current in this thread; null: none is.
  Device* current();
  PointerFacts facts_of(const void* data);

 private:
  CudaPlatform(std::unique_ptr<CudaDriver> driver, int devices)
      : driver_(std::move(driver)), devices_(static_cast<std::size_t>(devices)) {}

  std::unique_ptr<CudaDriver> driver_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<CudaDevice>> devices_;
};

}  // namespace wreath
