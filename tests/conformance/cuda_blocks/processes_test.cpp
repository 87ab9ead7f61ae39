// Tests ranks as processes: memory that a peer shares is mapped read only, and a GPU may use it only for reading.
#include "tests/support/processes.hpp"

#include <fmt/format.h>

#include "src/device/cuda/abi.hpp"
#include "tests/conformance/cuda_blocks/lanes_kernel.hpp"
#include "wreath/device.hpp"

namespace wreath::testing_support {
namespace {

constexpr std::size_t kCount = 200'000;
constexpr std::size_t kBytes = kCount * sizeof(float);

// Sums on memory of a CUDA device. Reports how many grids ran, and which of their arguments they do not reach.
WREATH_ROLE(sum) {
  if (!test::install_lanes_kernel()) return 2;
  test::FakeCuda::find().set_attribute(kCudaMpsEnabled, static_cast<int>(child.number("at_once")));
  test::FakeCuda::find().set_attribute(kCudaReadOnlyHostMemory, static_cast<int>(child.number("read_only")));
  for (int number : {0, 1}) static_cast<void>(cuda_device(number).value());  // things that they hold stay
  const int before = test::FakeCuda::find().alive();
  {
    auto communicator = child.create();
    if (!communicator) return child.failed(communicator.error());
    Device& device = *cuda_device(0).value();
    const DeviceMemory memory = device.allocate(kBytes).value();
    auto* const on_device = reinterpret_cast<float*>(memory.data());
    std::vector<float> values(kCount);
    for (int round = 1; round <= 3; ++round) {
      std::fill(values.begin(), values.end(), static_cast<float>(round * (child.rank() + 1)));
      device.copy(on_device, values.data(), kBytes).value();
      const Status status = communicator->all_reduce(std::span(on_device, kCount));
      if (!status) return child.failed(status.error());
      device.copy(values.data(), on_device, kBytes).value();
      if (values != std::vector<float>(kCount, static_cast<float>(3 * round))) return 4;
    }
  }
  const test::LanesSeen seen = test::take_lanes_seen();
  child.report(seen.waiting_grids > 0 ? "waits" : "ends");
  child.report(fmt::format("grids {} unreachable {} left {}", seen.grids > 0 ? "some" : "none", seen.unreachable.size(),
                           test::FakeCuda::find().alive() - before));
  return 0;
}

void expect_sums(const std::string& transport, bool read_only) {
  Job job("sum", 2, {{"transport", transport}, {"read_only", read_only ? "1" : "0"}});
  ASSERT_TRUE(job.share_id());
  for (int rank : {0, 1}) {
    EXPECT_EQ(job[rank].join(60'000 * kSlower), 0) << job.logs();
    EXPECT_EQ(job[rank].lines().back(), "grids some unreachable 0 left 0") << job.logs();
  }
}

TEST(CudasBlocks, ReachWhatOtherProcessesShare) {
  expect_sums("shm", true);
  expect_sums("tcp", true);
}

TEST(CudasBlocks, ReachItWhereTheDriverTakesOnlyPagesThatAreWritable) {
  expect_sums("shm", false);
  expect_sums("tcp", false);
}

// Gathers exportable memory again and again. Reports whether peers were given its place instead of a copy, and which
// arguments blocks do not reach.
WREATH_ROLE(gather) {
  if (!test::install_lanes_kernel()) return 2;
  const test::FakeCuda fake = test::FakeCuda::find();
  fake.set_attribute(kCudaMpsEnabled, static_cast<int>(child.number("at_once", 1)));
  for (int number : {0, 1}) static_cast<void>(cuda_device(number).value());  // things that they hold stay
  const int before = fake.alive();
  {
    auto communicator = child.create();
    if (!communicator) return child.failed(communicator.error());
    if (const std::string refused = child.text("refused_" + std::to_string(child.rank())); !refused.empty()) {
      fake.fail(refused.c_str(), kCudaNotSupported, 1'000);
    }
    Device& device = *cuda_device(static_cast<int>(child.number("cuda_" + std::to_string(child.rank())))).value();
    const DeviceMemory input = device.allocate(kBytes, MemoryUse::Exportable).value();
    const DeviceMemory output = device.allocate(2 * kBytes, MemoryUse::Exportable).value();
    std::vector<float> values(kCount);
    for (int round = 0; round < 8; ++round) {
      std::fill(values.begin(), values.end(), static_cast<float>(2 * round + child.rank()));
      device.copy(input.data(), values.data(), kBytes).value();
      const Status status =
          communicator->all_gather(reinterpret_cast<const float*>(input.data()),
                                   reinterpret_cast<float*>(output.data()), kCount, DataType::Float32);
      if (!status) return child.failed(status.error());
      for (int rank : {0, 1}) {
        device.copy(values.data(), output.data() + static_cast<std::size_t>(rank) * kBytes, kBytes).value();
        if (values != std::vector<float>(kCount, static_cast<float>(2 * round + rank))) return 4;
      }
      sleep_ms(2);  // peers map announced memory
    }
  }
  const test::LanesSeen seen = test::take_lanes_seen();
  const bool waits = seen.waiting_grids > 0;
  child.report(fmt::format("{} {} unreachable {} left {}", waits ? "waits" : "ends",
                           seen.references > 0 ? "references" : "copies", seen.unreachable.size(),
                           fake.alive() - before));
  return 0;
}

// Compares the reports of both ranks.
void expect_gathered(const Arguments& arguments, const std::string& first, const std::string& second) {
  Arguments all{{"transport", "shm,cuda_ipc"}, {"devices", "cuda:0"}};
  for (const auto& [name, value] : arguments) all[name] = value;
  Job job("gather", 2, all);
  ASSERT_TRUE(job.share_id());
  for (int rank : {0, 1}) {
    EXPECT_EQ(job[rank].join(60'000 * kSlower), 0) << job.logs();
    EXPECT_EQ(job[rank].lines().back(), (rank == 0 ? first : second) + " unreachable 0 left 0") << job.logs();
  }
}

TEST(CudasBlocks, LoadWhatOtherProcessesHaveOnTheDevice) {
  expect_gathered({}, "waits references", "waits references");
  expect_gathered({{"at_once", "0"}}, "ends references", "ends references");
}

TEST(CudasBlocks, LoadWhatOtherProcessesHaveOnAnotherDevice) {
  expect_gathered({{"device_1", "cuda:1"}, {"cuda_1", "1"}}, "waits references", "waits references");
}

// The blocks' device is not the rank's device, which maps memory: the host copies for them.
TEST(CudasBlocks, GetCopiesForAnotherDeviceThanTheRanks) {
  expect_gathered({{"cuda_1", "1"}}, "waits references", "waits copies");
}

TEST(CudasBlocks, GetCopiesWhereMemoryCannotBeImportedOrExported) {
  expect_gathered({{"refused_1", "cuMemImportFromShareableHandle"}}, "waits copies", "waits references");
  expect_gathered({{"refused_1", "cuMemExportToShareableHandle"}}, "waits references", "waits copies");
}

// Both ranks use cuda:0. A kernel that waits would keep the other process's kernel from running.
TEST(CudasBlocks, DoNotWaitWhereProcessesTakeTurns) {
  for (const bool at_once : {false, true}) {
    Job job("sum", 2, {{"transport", "shm"}, {"read_only", "1"}, {"at_once", at_once ? "1" : "0"}},
            {{"WREATH_DEVICE", "cuda:0"}});
    ASSERT_TRUE(job.share_id());
    for (int rank : {0, 1}) {
      EXPECT_EQ(job[rank].join(60'000 * kSlower), 0) << job.logs();
      const auto lines = job[rank].lines();
      EXPECT_EQ(lines[lines.size() - 2], at_once ? "waits" : "ends") << job.logs();
    }
  }
}

}  // namespace
}  // namespace wreath::testing_support
