// Looks at the ends of FIFOs that the lanes' steps name, before the blocks run.
#include "tests/conformance/cuda_blocks/lanes_kernel.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "src/executor/block/kernels.hpp"
#include "src/executor/block/run_handwritten.hpp"
#include "wreath/device.hpp"
#include "wreath/kernel.hpp"

namespace wreath::test {
namespace {

// Each block has so many threads, whatever the grid asks for: a leader, and two that work.
constexpr unsigned kThreads = 3;

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

// Looks at the arguments of the kernels of one device.
class Looks {
 public:
  explicit Looks(const LaneRun& run) : run_(run), device_(number(run)) {}

  // Looks at a grid's arguments. The caller holds seen().mutex.
  void look(unsigned blocks) const {
    const OperationState& operation = run_.operation;
    ++seen().of.grids;
    seen().of.handwritten_grids += run_.operation.loop == HandwrittenLoop::None ? 0 : 1;
    seen().of.waiting_grids += run_.look_limit == 0 ? 1 : 0;
    seen().of.blocks = std::max(seen().of.blocks, blocks);
    for (std::byte* const buffer : operation.buffers) expect(buffer, Reads, "a buffer");
    expect(operation.steps, Owns, "steps");
    expect(operation.several, Reads, "lists of parts");
    expect(operation.geometry.input.counts, Reads, "counts");
    expect(operation.geometry.output.offsets, Reads, "offsets");
    expect(run_.stop, Reads, "the stop word");
    expect(run_.moved, Writes, "the count of moves");
    for (unsigned block = 0; block < blocks; ++block) {
      const LaneState& lane = run_.lanes[block];
      expect(&lane, Owns, "a lane");
      for (std::uint32_t i = lane.first; i < lane.end; ++i) {
        const Step& step = operation.steps[i];
        for (unsigned out = 0; out < step.out_count; ++out) expect(*operation.targets[step.out_first + out]);
        for (unsigned in = 0; in < step.in_count; ++in) {
          expect(static_cast<const DeviceRecvFifo&>(*operation.sources[step.in_first + in]));
        }
      }
    }
  }

  void look(const BlockWork& work) const {
    if (work.kind == BlockWork::Kind::Stop || work.units == 0) return;
    const std::lock_guard lock(seen().mutex);
    expect(work.target, Writes, "a target");
    for (int i = 0; i < work.k; ++i) {
      expect(work.sources[i], Reads, "a source");
      if (seen().fake.reaches(device_, work.sources[i]) != Owns && is_device_memory(work.sources[i])) {
        seen().of.loaded_from_peers = true;
      }
    }
  }

 private:
  static int number(const LaneRun& run) {
    return reinterpret_cast<const Device*>(run.operation.device)->name().back() - '0';
  }
  bool is_device_memory(const void* data) const {
    return device_of_memory(data) != nullptr && seen().fake.reaches(1 - device_, data) == Owns;
  }

  void expect(const void* data, Access access, const char* what) const {
    if (data == nullptr || seen().fake.reaches(device_, data) >= access) return;
    seen().of.unreachable.emplace_back(what);
  }

  void expect(const SendFifo& fifo) const {
    expect(&fifo, Owns, "a sending end");
    expect(fifo.slots, Writes, "slots");
    expect(fifo.consumed, Reads, "a peer's counter");
    expect(fifo.staging, Writes, "staging");
  }

  void expect(const DeviceRecvFifo& fifo) const {
    expect(&fifo, Owns, "a receiving end");
    expect(fifo.slots, Reads, "a peer's slots");
    expect(fifo.consumed, Writes, "the counter");
    expect(fifo.owner_aborted, Reads, "the peer's abort flag");
    expect(fifo.pulled, Writes, "what the host reads");
    expect(fifo.regions, Reads, "a table of regions");
    for (std::uint32_t i = 1; fifo.regions != nullptr && i < kMaximumRegions; ++i) {
      const bool brought = fifo.regions[i].device != 0 && fifo.regions[i].device != fifo.device;
      if (!brought) expect(fifo.regions[i].base, Reads, "a peer's region");
    }
  }

  const LaneRun& run_;
  int device_;
};

// Looks at each piece of work before it is done. Work comes with every other barrier, after `first` other barriers.
class LookingBlock : public HostBlock {
 public:
  LookingBlock(HostBlockShared& shared, unsigned block, unsigned thread, const Looks& looks, unsigned first)
      : HostBlock(shared, block, thread, kThreads), looks_(looks), barriers_(first) {}
  void barrier() {
    HostBlock::barrier();
    if (thread() == 0 || ++barriers_ % 2 == 0) return;
    looks_.look(reinterpret_cast<const BlockShared*>(shared_memory())->work);
  }

 private:
  const Looks& looks_;
  unsigned barriers_;
};

// Calls body(shared, block, thread) on a thread for each thread of the grid.
template <typename Body>
void run_threads(unsigned blocks, const Body& body) {
  std::vector<std::unique_ptr<HostBlockShared>> shared;
  for (unsigned block = 0; block < blocks; ++block) shared.push_back(std::make_unique<HostBlockShared>(kThreads));
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < blocks * kThreads; ++i) {
    threads.emplace_back([&, i] { body(*shared[i / kThreads], i / kThreads, i % kThreads); });
  }
}

void run_block(LookingBlock& block, const LaneRun& run) {
  if (run.operation.loop == HandwrittenLoop::None) return run_lanes(block, run);
  run_handwritten(block, run);
}

void run_grid(unsigned blocks, unsigned, void** parameters) {
  const auto& run = *static_cast<const LaneRun*>(parameters[0]);
  const Looks looks(run);
  {
    const std::lock_guard lock(seen().mutex);
    looks.look(blocks);
  }
  run_threads(blocks, [&](HostBlockShared& shared, unsigned block, unsigned thread) {
    const unsigned first = run.operation.loop == HandwrittenLoop::None ? 1 : 0;  // the barrier of bring_steps()
    LookingBlock looking(shared, block, thread, looks, first);
    run_block(looking, run);
  });
  const std::lock_guard lock(seen().mutex);
  for (unsigned block = 0; block < blocks; ++block) seen().of.references += run.lanes[block].referenced ? 1 : 0;
}

}  // namespace

void run_blocks(const Kernel& kernel, unsigned blocks, const void* argument) {
  run_threads(blocks, [&](HostBlockShared& shared, unsigned block, unsigned thread) {
    HostBlock own(shared, block, thread, kThreads);
    kernel.host(own, argument);
  });
}

bool install_lanes_kernel() {
  static_cast<void>(cuda_devices());
  seen().fake = FakeCuda::find();
  if (!seen().fake) return false;
  for (const Kernel* kernel : {&run_lanes_kernel(), &run_handwritten_kernel()}) {
    seen().fake.set_kernel(kernel->name, &run_grid, sizeof(LaneRun));
  }
  return true;
}

LanesSeen take_lanes_seen() {
  const std::lock_guard lock(seen().mutex);
  return std::exchange(seen().of, LanesSeen());
}

}  // namespace wreath::test
