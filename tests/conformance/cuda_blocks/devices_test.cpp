// Tests ranks of one process on two CUDA devices, over the fake CUDA driver. Blocks of one device load the other's
// memory where the devices reach each other.
#include <array>
#include <chrono>
#include <thread>

#include "src/device/cuda/abi.hpp"
#include "src/executor/block/kernels.hpp"
#include "src/executor/block/run_lanes.hpp"
#include "tests/conformance/cuda_blocks/lanes_kernel.hpp"
#include "tests/support/collective_matrix.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::test {
namespace {

constexpr std::size_t kCount = 100'000;
constexpr std::size_t kBytes = kCount * sizeof(float);

class TwoDevices : public testing::TestWithParam<MemoryUse> {
 protected:
  void SetUp() override {
    if (!install_lanes_kernel()) GTEST_SKIP() << "needs the driver that stands for CUDA's: run it by ctest";
    fake_ = FakeCuda::find();
    take_lanes_seen();
  }
  void TearDown() override {
    if (!fake_) return;
    fake_.fail("cuDeviceCanAccessPeer", kCudaSuccess, 0);
    fake_.fail("cuMemSetAccess", kCudaSuccess, 0);
    fake_.fail("cuCtxEnablePeerAccess", kCudaSuccess, 0);
  }
  FakeCuda fake_{};
};
INSTANTIATE_TEST_SUITE_P(Memory, TwoDevices, testing::Values(MemoryUse::Plain, MemoryUse::Exportable),
                         [](const auto& of) { return of.param == MemoryUse::Plain ? "plain" : "exportable"; });

CommunicatorOptions options(const std::string& algorithm) {
  CommunicatorOptions options;
  options.transports = {"inproc"};
  options.device = "cuda:0,cuda:1";
  options.overrides.algorithm = algorithm;
  return options;
}

// Gathers new memory of all ranks, each on its own device, `rounds` times.
void expect_gathered(LocalRanks& ranks, MemoryUse use, int rounds) {
  ranks.run([&](Communicator& all) {
    const int rank = all.rank();
    Device& device = *cuda_device(rank % 2).value();
    for (int round = 0; round < rounds; ++round) {
      const DeviceMemory input = device.allocate(kBytes, use).value();
      const DeviceMemory output = device.allocate(static_cast<std::size_t>(all.ranks()) * kBytes, use).value();
      std::vector<float> values(kCount, static_cast<float>(10 * round + rank));
      device.copy(input.data(), values.data(), kBytes).value();
      all.all_gather(reinterpret_cast<const float*>(input.data()), reinterpret_cast<float*>(output.data()), kCount,
                     DataType::Float32)
          .value();
      for (int peer = 0; peer < all.ranks(); ++peer) {
        device.copy(values.data(), output.data() + static_cast<std::size_t>(peer) * kBytes, kBytes).value();
        EXPECT_EQ(values, std::vector<float>(kCount, static_cast<float>(10 * round + peer))) << "round " << round;
      }
    }
  });
}

// Memory that is freed and made again must be made accessible again.
TEST_P(TwoDevices, LoadEachOthersMemory) {
  for (const char* algorithm : {"direct", "ring"}) {
    LocalRanks ranks(3, options(algorithm));
    expect_gathered(ranks, GetParam(), 3);
    const LanesSeen seen = take_lanes_seen();
    EXPECT_TRUE(seen.loaded_from_peers) << algorithm;
    EXPECT_EQ(seen.unreachable, std::vector<std::string>()) << algorithm;
  }
}

TEST_P(TwoDevices, GetCopiesWhereTheyDoNotReachEachOther) {
  for (const char* refused : {"cuDeviceCanAccessPeer", "cuMemSetAccess"}) {
    if (std::string_view(refused) == "cuMemSetAccess" && GetParam() == MemoryUse::Plain) continue;
    LocalRanks ranks(2, options("direct"));
    ranks.run([&](Communicator& all) { all.barrier().value(); });
    take_lanes_seen();
    ranks.run([&](Communicator& all) {
      Device& device = *cuda_device(all.rank()).value();
      const DeviceMemory input = device.allocate(kBytes, GetParam()).value();
      const DeviceMemory output = device.allocate(2 * kBytes, GetParam()).value();
      std::vector<float> values(kCount, static_cast<float>(all.rank()));
      device.copy(input.data(), values.data(), kBytes).value();
      all.barrier().value();
      if (all.rank() == 0) fake_.fail(refused, kCudaNotSupported, 1'000'000);
      all.barrier().value();
      all.all_gather(reinterpret_cast<const float*>(input.data()), reinterpret_cast<float*>(output.data()), kCount,
                     DataType::Float32)
          .value();
      device.copy(values.data(), output.data() + static_cast<std::size_t>(1 - all.rank()) * kBytes, kBytes).value();
      EXPECT_EQ(values, std::vector<float>(kCount, static_cast<float>(1 - all.rank())));
    });
    fake_.fail(refused, kCudaSuccess, 0);
    const LanesSeen seen = take_lanes_seen();
    EXPECT_GT(seen.references, 0) << refused;
    EXPECT_FALSE(seen.loaded_from_peers) << refused;
    EXPECT_EQ(seen.unreachable, std::vector<std::string>()) << refused;
  }
}

// The error of memory that cannot be read advises users to set this option to 0.
TEST_P(TwoDevices, NameNothingWhereTheProgramWantsNoSingleCopies) {
  CommunicatorOptions staged = options("direct");
  staged.overrides.single_copy_bytes = 0;
  LocalRanks ranks(2, staged);
  expect_gathered(ranks, GetParam(), 2);
  const LanesSeen seen = take_lanes_seen();
  EXPECT_EQ(seen.references, 0);
  EXPECT_FALSE(seen.loaded_from_peers);
}

// Messages of one exchange may be in several allocations, or in one.
TEST_P(TwoDevices, ExchangeMessagesOfSeveralAllocations) {
  LocalRanks ranks(2, options(""));
  ranks.run([&](Communicator& all) {
    Device& device = *cuda_device(all.rank()).value();
    std::array<DeviceMemory, 2> sent;
    std::array<DeviceMemory, 2> received;
    std::vector<float> values(kCount);
    for (std::size_t i = 0; i < 2; ++i) {
      sent[i] = device.allocate(kBytes, GetParam()).value();
      received[i] = device.allocate(kBytes, GetParam()).value();
      values.assign(kCount, static_cast<float>(all.rank() + 2 * static_cast<int>(i)));
      device.copy(sent[i].data(), values.data(), kBytes).value();
    }
    for (int round = 0; round < 2; ++round) {
      Group group;
      for (std::size_t i = 0; i < 2; ++i) {
        all.send(reinterpret_cast<const float*>(sent[i].data()), kCount, DataType::Float32, 1 - all.rank()).value();
        all.recv(reinterpret_cast<float*>(received[i].data()), kCount, DataType::Float32, 1 - all.rank()).value();
      }
      group.run().value();
      for (std::size_t i = 0; i < 2; ++i) {
        device.copy(values.data(), received[i].data(), kBytes).value();
        EXPECT_EQ(values, std::vector<float>(kCount, static_cast<float>(1 - all.rank() + 2 * static_cast<int>(i))));
      }
    }
  });
  const LanesSeen seen = take_lanes_seen();
  EXPECT_TRUE(seen.loaded_from_peers);
  EXPECT_EQ(seen.unreachable, std::vector<std::string>());
}

// A kernel's fault ends all work of the device, but no grid. The call then has the error text of the driver itself.
TEST(CudasBlocks, AreGivenUpWhereTheDeviceFails) {
  if (!install_lanes_kernel()) GTEST_SKIP() << "needs the driver that stands for CUDA's: run it by ctest";
  const FakeCuda fake = FakeCuda::find();
  LocalRanks ranks(2, options("ring"));
  const RecordingsFolder kept;
  std::vector<Communicator>& communicators = ranks.communicators();
  const DeviceMemory memory = cuda_device(0).value()->allocate(kBytes).value();
  Call call;
  call.collective = Collective::AllReduce;
  call.dtype = DataType::Float32;
  call.input = call.output = memory.data();
  call.count = kCount;
  const auto faults = [](unsigned, unsigned, void**) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // all work behind the kernel is in the stream
    FakeCuda::find().lose(kCudaLaunchFailed);
  };
  fake.set_kernel(run_lanes_kernel().name, faults, sizeof(LaneRun));
  const Status over = communicators[0].start(call).value().wait(20'000);
  fake.lose(0);
  install_lanes_kernel();
  ASSERT_FALSE(over);
  EXPECT_NE(over.error().message.find("CUDA_ERROR_LAUNCH_FAILED"), std::string::npos) << over.error().message;
}

}  // namespace
}  // namespace wreath::test
