// A graph of a CUDA device without work of the host is the driver's own. A graph with such work gives the streams'
// commands again with each launch. A stream that waits takes few commands of the driver. A launch that finds it full
// waits under locks that the host's work needs (decision 0026).
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "src/device/capture.hpp"
#include "src/device/cuda/context.hpp"

namespace wreath {

// A command that a capturing stream gave the driver.
class CudaCommand final : public GraphWork {
 public:
  // The text of `call` lives as long as the process.
  CudaCommand(std::string_view call, std::function<CudaResult(CudaHandle stream)> enqueue)
      : call_(call), enqueue_(std::move(enqueue)) {}
  Status check() override { return {}; }
  std::function<Status()> begin() override { return {}; }
  std::string_view call() const { return call_; }
  CudaResult enqueue(CudaHandle stream) const { return enqueue_(stream); }

 private:
  std::string_view call_;
  std::function<CudaResult(CudaHandle)> enqueue_;
};

// Takes `graph`, which is the driver's, also where it fails.
Result<std::unique_ptr<Graph>> make_cuda_graph(Device& device, const CudaContext& context, CudaHandle graph,
                                               CapturedItems captured);

}  // namespace wreath
