// What a CUDA device and its streams, events and memory share: the driver and the device's primary context.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/device/cuda/driver.hpp"

namespace wreath {

struct CudaContext {
  const CudaDriver& driver;
  int number;  // CUDA's ordinal
  int device;  // the driver's own
  CudaHandle handle;
  std::string name;  // "cuda:0"

  Status check(CudaResult result, std::string_view call) const { return driver.check(result, name, call); }
};

// Makes the device's context the calling thread's own for a while: calls about its memory and streams need it.
class CurrentContext {
 public:
  explicit CurrentContext(const CudaContext& context)
      : driver_(context.driver), result_(context.driver.ctx_push_current(context.handle)) {}
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext() {
    CudaHandle own = nullptr;
    if (result_ == kCudaSuccess) driver_.ctx_pop_current(&own);
  }
  CudaResult result() const { return result_; }

 private:
  const CudaDriver& driver_;
  CudaResult result_;
};

// `call` with the context current; its result, or why the context cannot be.
template <typename Call>
CudaResult with_context(const CudaContext& context, Call call) {
  const CurrentContext current(context);
  return current.result() != kCudaSuccess ? current.result() : call();
}

}  // namespace wreath
