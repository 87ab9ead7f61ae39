// Runs the templates that nvcc compiles with a block of host threads.
#include "perf/base/kernels.hpp"

#include "perf/base/ping_pong.hpp"
#include "perf/base/sequence.hpp"

namespace wreath {

const void* perf_cuda_image() noexcept;

namespace perf {
namespace {

static_assert(kSequenceThreads * sizeof(std::uint64_t) <= sizeof(HostBlockShared::memory));

template <typename Run, void (*run)(HostBlock&, const Run&)>
void on_host(HostBlock& block, const void* arguments) {
  run(block, *static_cast<const Run*>(arguments));
}

}  // namespace

const Kernel& fill_kernel() noexcept {
  static const Kernel kernel{"wreath_perf_fill", perf_cuda_image(), &on_host<FillRun, run_fill>};
  return kernel;
}

const Kernel& count_kernel() noexcept {
  static const Kernel kernel{"wreath_perf_count", perf_cuda_image(), &on_host<CountRun, run_count>};
  return kernel;
}

const Kernel& nothing_kernel() noexcept {
  static const Kernel kernel{"wreath_perf_nothing", perf_cuda_image(), &on_host<NothingRun, run_nothing>};
  return kernel;
}

const Kernel& ping_pong_kernel() noexcept {
  static const Kernel kernel{"wreath_perf_ping_pong", perf_cuda_image(), &on_host<PingPongRun, run_ping_pong>};
  return kernel;
}

bool has_gpu_kernels() noexcept { return perf_cuda_image() != nullptr; }

}  // namespace perf
}  // namespace wreath
