// The host runs the same templates that nvcc compiles, with blocks of host threads.
#include "src/executor/block/kernels.hpp"

#include "src/executor/block/image.hpp"
#include "src/executor/block/low_latency.hpp"
#include "src/executor/block/run_handwritten.hpp"
#include "wreath/kernel.hpp"

namespace wreath {
namespace {

static_assert(sizeof(LowLatencyShared) <= sizeof(BlockShared));
static_assert(sizeof(BlockShared) <= sizeof(HostBlockShared::memory));

void run_lanes_on_host(HostBlock& block, const void* arguments) {
  run_lanes(block, *static_cast<const LaneRun*>(arguments));
}

void run_handwritten_on_host(HostBlock& block, const void* arguments) {
  run_handwritten(block, *static_cast<const LaneRun*>(arguments));
}

void run_low_latency_on_host(HostBlock& block, const void* arguments) {
  run_low_latency(block, *static_cast<const LowLatencyRun*>(arguments));
}

}  // namespace

const Kernel& run_lanes_kernel() noexcept {
  static const Kernel kernel{"wreath_run_lanes", cuda_image(), &run_lanes_on_host};
  return kernel;
}

const Kernel& run_handwritten_kernel() noexcept {
  static const Kernel kernel{"wreath_run_handwritten", cuda_image(), &run_handwritten_on_host};
  return kernel;
}

const Kernel& run_low_latency_kernel() noexcept {
  static const Kernel kernel{"wreath_run_low_latency", cuda_image(), &run_low_latency_on_host};
  return kernel;
}

}  // namespace wreath
