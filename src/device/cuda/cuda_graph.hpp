// Graphs of a CUDA device: the driver's own, with work of the host in it that each launch gives anew.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "src/device/capture.hpp"
#include "src/device/cuda/host_work.hpp"

namespace wreath {

// The host's work of each branch of a capture: its pieces run one after the other, those of other branches beside them.
class CudaBranches {
 public:
  Status add(const CudaContext& context);
  CudaHostWork& at(std::size_t branch) const;
  std::size_t count() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<CudaHostWork>> each_;
};

// Takes `graph`, also where it fails.
Result<std::unique_ptr<Graph>> make_cuda_graph(const CudaContext& context, CudaHandle graph, CapturedItems captured,
                                               std::shared_ptr<CudaBranches> branches);

}  // namespace wreath
