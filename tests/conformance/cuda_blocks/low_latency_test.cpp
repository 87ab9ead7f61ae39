// Tests small all_reduces as kernels of their own on a CUDA device, over the fake CUDA driver. The ranks are threads,
// or processes, which map each other's areas. The kernel looks whether a GPU would reach its arguments.
#include "src/executor/block/low_latency.hpp"

#include <fmt/format.h>

#include <mutex>
#include <set>
#include <utility>

#include "src/device/cuda/abi.hpp"
#include "src/executor/block/kernels.hpp"
#include "tests/conformance/cuda_blocks/lanes_kernel.hpp"
#include "tests/support/local_ranks.hpp"
#include "tests/support/processes.hpp"

namespace wreath::test::low_latency {
namespace {

constexpr std::size_t kMost = 16 * 1024;  // two blocks a rank: the driver has 16
constexpr int kRounds = 20;

struct KernelSeen {
  std::mutex mutex;
  FakeCuda fake{};
  int grids = 0;
  std::set<std::string> unreachable;
};
KernelSeen& seen() {
  static KernelSeen instance;
  return instance;
}

void expect(const void* data, int access, const char* what) {
  if (seen().fake.reaches(0, data) < access) seen().unreachable.insert(what);
}

void look(const LowLatencyRun& run) {
  constexpr int kReads = 1;
  constexpr int kWrites = 2;
  constexpr int kOwns = 3;
  const std::lock_guard lock(seen().mutex);
  ++seen().grids;
  expect(run.input, kReads, "the input");
  expect(run.output, kWrites, "the output");
  expect(run.own, kOwns, "the own area");
  expect(run.areas, kOwns, "the table of areas");
  for (int rank = 0; rank < run.arithmetic.ranks; ++rank) expect(run.areas[rank], kReads, "a peer's area");
  expect(run.ends, kWrites, "the blocks' ends");
  expect(run.stop, kReads, "the stop word");
}

void run_grid(unsigned blocks, unsigned, void** parameters) {
  const auto& run = *static_cast<const LowLatencyRun*>(parameters[0]);
  look(run);
  run_blocks(run_low_latency_kernel(), blocks, &run);
}

bool install() {
  if (!install_lanes_kernel()) return false;
  seen().fake = FakeCuda::find();
  seen().fake.set_kernel(run_low_latency_kernel().name, &run_grid, sizeof(LowLatencyRun));
  return true;
}

std::string take_seen() {
  const std::lock_guard lock(seen().mutex);
  const std::set<std::string> unreachable = std::exchange(seen().unreachable, {});
  return fmt::format("{} grids, unreachable: {}", std::exchange(seen().grids, 0),
                     unreachable.empty() ? "nothing" : *unreachable.begin());
}

// Makes sums on memory of the rank's device: small ones and a large one, for which the protocol is too small. Returns
// an empty text where all are right.
std::string sums(Communicator& communicator) {
  Device& device = *cuda_device(0).value();
  const int ranks = communicator.ranks();
  const DeviceMemory memory = device.allocate(2 * kMost).value();
  auto* const on_device = reinterpret_cast<std::int32_t*>(memory.data());
  for (int round = 1; round <= kRounds; ++round) {
    const std::size_t count = round == kRounds ? kMost / 2 : static_cast<std::size_t>(round * round * 10 + 1);
    std::vector<std::int32_t> values(count, round * (communicator.rank() + 1));
    device.copy(on_device, values.data(), count * sizeof(std::int32_t)).value();
    const Status status = communicator.all_reduce(std::span(on_device, count));
    if (!status) return status.error().message;
    device.copy(values.data(), on_device, count * sizeof(std::int32_t)).value();
    if (values != std::vector<std::int32_t>(count, round * ranks * (ranks + 1) / 2)) return "wrong sums";
  }
  return {};
}

TEST(SmallSumsOnCuda, AreGridsOfTheirOwn) {
  ASSERT_TRUE(install());
  take_seen();
  CommunicatorOptions options;
  options.device = "cuda:0";
  options.overrides.low_latency_bytes = kMost;
  for (const int n : {2, 4}) {
    LocalRanks ranks(n, options);
    ranks.run([](Communicator& communicator) { EXPECT_EQ(sums(communicator), ""); });
    EXPECT_EQ(take_seen(), fmt::format("{} grids, unreachable: nothing", n * (kRounds - 1)));
  }
}

}  // namespace
}  // namespace wreath::test::low_latency

namespace wreath::testing_support {
namespace {

WREATH_ROLE(small_sums) {
  if (!test::low_latency::install()) return 2;
  test::FakeCuda::find().set_attribute(kCudaMpsEnabled, static_cast<int>(child.number("at_once")));
  static_cast<void>(cuda_device(0).value());  // things that the device holds stay
  const int before = test::FakeCuda::find().alive();
  {
    auto communicator = child.create();
    if (!communicator) return child.failed(communicator.error());
    child.report(test::low_latency::sums(*communicator));
  }
  child.report(test::low_latency::take_seen());
  child.report(fmt::format("left {}", test::FakeCuda::find().alive() - before));
  return 0;
}

void expect_small_sums(bool at_once, int grids) {
  Job job("small_sums", 2, {{"transport", "shm"}, {"at_once", at_once ? "1" : "0"}},
          {{"WREATH_DEVICE", "cuda:0"}, {"WREATH_LOW_LATENCY_BYTES", std::to_string(test::low_latency::kMost)}});
  ASSERT_TRUE(job.share_id());
  for (const int rank : {0, 1}) {
    EXPECT_EQ(job[rank].join(60'000 * kSlower), 0) << job.logs();
    const auto lines = job[rank].lines();
    ASSERT_GE(lines.size(), 3U) << job.logs();
    EXPECT_EQ(lines[lines.size() - 3], "") << job.logs();
    EXPECT_EQ(lines[lines.size() - 2], fmt::format("{} grids, unreachable: nothing", grids)) << job.logs();
    EXPECT_EQ(lines.back(), "left 0") << job.logs();
  }
}

TEST(SmallSumsOnCuda, ReachTheAreasOfOtherProcesses) { expect_small_sums(true, test::low_latency::kRounds - 1); }

// A kernel that waits would keep the other process's kernel from running.
TEST(SmallSumsOnCuda, AreNotMadeWhereProcessesTakeTurns) { expect_small_sums(false, 0); }

}  // namespace
}  // namespace wreath::testing_support
