// Holds the perf tools' kernels, because tests of these programs cannot give kernels to the fake libcuda.so.1
// themselves.
#include "perf/base/ping_pong.hpp"
#include "perf/base/sequence.hpp"
#include "tests/support/fake_cuda/machine.hpp"
#include "wreath/kernel.hpp"

namespace wreath::test {
namespace {

// Runs the blocks one after the other, each with one thread.
template <typename Run, void (*run)(HostBlock&, const Run&)>
void in_turn(unsigned blocks, unsigned, void** parameters) {
  HostBlockShared shared(1);
  for (unsigned i = 0; i < blocks; ++i) {
    HostBlock block(shared, i, 0, 1);
    run(block, *static_cast<const Run*>(parameters[0]));
  }
}

template <typename Run, void (*run)(HostBlock&, const Run&)>
void at_once(unsigned blocks, unsigned, void** parameters) {
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < blocks; ++i) {
    threads.emplace_back([=] {
      HostBlockShared shared(1);
      HostBlock block(shared, i, 0, 1);
      run(block, *static_cast<const Run*>(parameters[0]));
    });
  }
}

}  // namespace

std::map<std::string, FakeFunction> perf_kernels() {
  using namespace perf;
  return {{"wreath_perf_fill", {&in_turn<FillRun, run_fill>, sizeof(FillRun)}},
          {"wreath_perf_count", {&in_turn<CountRun, run_count>, sizeof(CountRun)}},
          {"wreath_perf_nothing", {&in_turn<NothingRun, run_nothing>, sizeof(NothingRun)}},
          {"wreath_perf_ping_pong", {&at_once<PingPongRun, run_ping_pong>, sizeof(PingPongRun)}}};
}

}  // namespace wreath::test
