// Looks at the ends of FIFOs that the lanes' steps name.
#include "tests/conformance/cuda_blocks/lanes_kernel.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "kernels/block/kernels.hpp"
#include "kernels/block/run_lanes.hpp"
#include "wreath/device.hpp"
#include "wreath/kernel.hpp"

namespace wreath::test {
namespace {

constexpr unsigned kThreads = 2;  // of a block, whatever the grid asks for

struct Seen {
  std::mutex mutex;
  FakeCuda fake{};
  LanesSeen of;
};
Seen& seen() {
  static Seen instance;
  return instance;
}

enum Access : int { Reads = 1, Writes = 2, Owns = 3 };

// With seen().mutex held.
void expect(const void* data, Access access, const char* what) {
  if (data == nullptr || seen().fake.reaches(data) >= access) return;
  seen().of.unreachable.emplace_back(what);
}

void expect(const SendFifo& fifo) {
  expect(&fifo, Owns, "a sending end");
  expect(fifo.slots, Writes, "slots");
  expect(fifo.consumed, Reads, "a peer's counter");
  expect(fifo.staging, Writes, "staging");
}

void expect(const RecvFifo& fifo) {
  expect(&fifo, Owns, "a receiving end");
  expect(fifo.slots, Reads, "a peer's slots");
  expect(fifo.consumed, Writes, "the counter");
  expect(fifo.owner_aborted, Reads, "the peer's abort flag");
  expect(fifo.pulled, Writes, "what the host reads");
  expect(fifo.regions, Reads, "a table of regions");
  for (std::uint32_t i = 1; fifo.regions != nullptr && i < kMaximumRegions; ++i) {
    expect(fifo.regions[i].base, Reads, "a peer's region");
  }
}

void look(const LaneRun& run, unsigned blocks) {
  const OperationState& operation = run.operation;
  const std::lock_guard lock(seen().mutex);
  ++seen().of.grids;
  seen().of.straight_grids += run.straight.row == StraightRow::None ? 0 : 1;
  seen().of.waiting_grids += run.look_limit == 0 ? 1 : 0;
  seen().of.blocks = std::max(seen().of.blocks, blocks);
  for (std::byte* const buffer : operation.buffers) expect(buffer, Reads, "a buffer");
  expect(operation.steps, Owns, "steps");
  expect(operation.several, Reads, "lists of parts");
  expect(operation.geometry.input.counts, Reads, "counts");
  expect(operation.geometry.output.offsets, Reads, "offsets");
  expect(run.stop, Reads, "the stop word");
  expect(run.moved, Writes, "the count of moves");
  for (unsigned block = 0; block < blocks; ++block) {
    const LaneState& lane = run.lanes[block];
    expect(&lane, Owns, "a lane");
    for (std::uint32_t i = lane.first; i < lane.end; ++i) {
      const Step& step = operation.steps[i];
      for (unsigned out = 0; out < step.out_count; ++out) expect(*operation.targets[step.out_first + out]);
      for (unsigned in = 0; in < step.in_count; ++in) expect(*operation.sources[step.in_first + in]);
    }
  }
}

const Kernel& kernel_of(const LaneRun& run) {
  return run.straight.row == StraightRow::None ? run_lanes_kernel() : run_straight_kernel();
}

void run_grid(unsigned blocks, unsigned, void** parameters) {
  const auto& run = *static_cast<const LaneRun*>(parameters[0]);
  look(run, blocks);
  run_blocks(kernel_of(run), blocks, &run);
  const std::lock_guard lock(seen().mutex);
  for (unsigned block = 0; block < blocks; ++block) seen().of.references += run.lanes[block].referenced ? 1 : 0;
}

}  // namespace

void run_blocks(const Kernel& kernel, unsigned blocks, const void* argument) {
  std::vector<std::unique_ptr<HostBlockShared>> shared;
  for (unsigned block = 0; block < blocks; ++block) shared.push_back(std::make_unique<HostBlockShared>(kThreads));
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < blocks * kThreads; ++i) {
    threads.emplace_back([&, i] {
      HostBlock block(*shared[i / kThreads], i / kThreads, i % kThreads, kThreads);
      kernel.host(block, argument);
    });
  }
}

bool install_lanes_kernel() {
  static_cast<void>(cuda_devices());
  seen().fake = FakeCuda::find();
  if (!seen().fake) return false;
  for (const Kernel* kernel : {&run_lanes_kernel(), &run_straight_kernel()}) {
    seen().fake.set_kernel(kernel->name, &run_grid, sizeof(LaneRun));
  }
  return true;
}

LanesSeen take_lanes_seen() {
  const std::lock_guard lock(seen().mutex);
  return std::exchange(seen().of, LanesSeen());
}

}  // namespace wreath::test
