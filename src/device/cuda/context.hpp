// The state that a CUDA device shares with its streams, events and memory: the driver and the device's primary context.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/device/cuda/driver.hpp"
#include "src/device/cuda/pinned_words.hpp"

namespace wreath {

struct CudaContext {
  const CudaDriver& driver;
  int number;  // CUDA's ordinal
  int device;  // the driver's own
  CudaHandle handle;
  std::string name;  // "cuda:0"
  // The priority of the library's own streams.
  int urgent = 0;
  PinnedWords* words = nullptr;  // the device's

  Status check(CudaResult result, std::string_view call) const { return driver.check(result, name, call); }
};

// Makes the device's context the calling thread's own for a while, because calls about its memory and streams need it.
// It also relaxes the thread's capture mode. Otherwise a capture of the program in another thread (CUDA's "global"
// mode) would refuse this thread's allocations and questions. Each refusal would end that capture.
class CurrentContext {
 public:
  explicit CurrentContext(const CudaContext& context)
      : driver_(context.driver), result_(context.driver.ctx_push_current(context.handle)) {
    if (result_ == kCudaSuccess) driver_.thread_exchange_stream_capture_mode(&mode_);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext() {
    if (result_ != kCudaSuccess) return;
    CudaHandle own = nullptr;
    driver_.thread_exchange_stream_capture_mode(&mode_);
    driver_.ctx_pop_current(&own);
  }
  CudaResult result() const { return result_; }

 private:
  const CudaDriver& driver_;
  CudaResult result_;
  // The mode that the thread gets. After the first exchange it holds the thread's own mode.
  int mode_ = kCudaCaptureRelaxed;
};

// Makes `call` with the context current. Returns its result, or the reason for which the context cannot be current.
template <typename Call>
CudaResult with_context(const CudaContext& context, Call call) {
  const CurrentContext current(context);
  return current.result() != kCudaSuccess ? current.result() : call();
}

}  // namespace wreath
