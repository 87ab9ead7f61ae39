// Tests calls on memory of a device, which its blocks run. They run on the host device and, with the fake CUDA driver
// (test conformance_device_fake_cuda), on a CUDA device.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::test::blocks_of_calls {
namespace {

constexpr std::size_t kCount = 10'000;
constexpr std::size_t kBytes = kCount * sizeof(float);

struct Place {
  const char* device;
  const char* transport;
};

std::vector<Place> places() {
  std::vector<Place> all;
  for (const char* device : {"host", "cuda"}) {
    for (const char* transport : {"inproc", "shm", "tcp"}) all.push_back({device, transport});
  }
  return all;
}

class CallsByBlocks : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    const bool cuda = std::string(GetParam().device) == "cuda";
    if (cuda && !cuda_devices()) GTEST_SKIP() << "no CUDA device: run it as ctest -R conformance_device_fake_cuda";
    device_ = cuda ? cuda_device(0).value() : &host_device();
  }
  Device& device() const { return *device_; }
  static CommunicatorOptions options() {
    CommunicatorOptions options;
    options.transports = {GetParam().transport};
    return options;
  }

 private:
  Device* device_ = nullptr;
};

// Sums `count` elements over two ranks, each with memory of its entry in `devices`; null means ordinary memory.
void expect_sums(const CommunicatorOptions& options, const std::array<Device*, 2>& devices, std::size_t count) {
  LocalRanks ranks(2, options);
  ranks.run([&](Communicator& communicator) {
    Device* const device = devices[static_cast<std::size_t>(communicator.rank())];
    const std::size_t bytes = count * sizeof(float);
    std::vector<float> source(count, static_cast<float>(communicator.rank() + 1));
    std::vector<float> target(count);
    const float* input = source.data();
    float* output = target.data();
    DeviceMemory memory[2];
    if (device != nullptr) {
      for (DeviceMemory& each : memory) each = device->allocate(bytes).value();
      input = reinterpret_cast<const float*>(memory[0].data());
      output = reinterpret_cast<float*>(memory[1].data());
      device->copy(memory[0].data(), source.data(), bytes).value();
    }
    for (int repeat = 0; repeat < 3; ++repeat) {
      communicator.all_reduce(input, output, count, DataType::Float32).value();
      if (device != nullptr) device->copy(target.data(), output, bytes).value();
      EXPECT_EQ(target, std::vector<float>(count, 3));
    }
  });
}

TEST_P(CallsByBlocks, SumWhatAllRanksHave) {
  for (const std::size_t count : {kCount, 40 * kCount}) expect_sums(options(), {&device(), &device()}, count);
}

TEST_P(CallsByBlocks, SumWithARankWhoseMemoryIsTheHosts) {
  for (const std::size_t count : {kCount, 40 * kCount}) {
    expect_sums(options(), {&device(), nullptr}, count);
    expect_sums(options(), {nullptr, &device()}, count);
  }
}

TEST_P(CallsByBlocks, RefuseBuffersThatEndBehindTheirAllocation) {
  using Try = Status (*)(Communicator&, float*);
  const std::pair<const char*, Try> tries[] = {
      {"input", [](Communicator& all, float* from) { return all.all_reduce(from, from, kCount, DataType::Float32); }},
      {"output",
       [](Communicator& all, float* from) { return all.broadcast(from, from, kCount, DataType::Float32, 1); }},
      {"input", [](Communicator& all, float* from) { return all.send(from, kCount, DataType::Float32, 1); }},
      {"output", [](Communicator& all, float* from) { return all.recv(from, kCount, DataType::Float32, 1); }}};
  for (const auto& [buffer, call] : tries) {
    LocalRanks ranks(2, options());
    const DeviceMemory memory = device().allocate(kBytes).value();
    const Status refused = call(ranks.communicators().front(), reinterpret_cast<float*>(memory.data()) + kCount / 2);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
    const std::string text = std::string(buffer) + " in memory of " + std::string(device().name()) + " of " +
                             std::to_string(kBytes) + " bytes at ";
    EXPECT_NE(refused.error().message.find(text), std::string::npos) << refused.error().message;
  }
}

std::string name_of(const testing::TestParamInfo<Place>& info) {
  return std::string(info.param.device) + "_" + info.param.transport;
}
// Ranks of one process read each other's memory in place. A wait for such a reader is no movement.
TEST_P(CallsByBlocks, EndWhereAPeerNeverComesForWhatItWasToRead) {
  CommunicatorOptions late = options();
  late.timeouts.arrival_ms = late.timeouts.stall_ms = 2'000;
  LocalRanks ranks(2, late);
  constexpr std::size_t kLarge = 40 * kCount;  // not staged
  DeviceMemory memory[2];
  for (DeviceMemory& each : memory) each = device().allocate(kLarge * sizeof(float)).value();
  ranks.run([&](Communicator& communicator) {
    const DeviceMemory& own = memory[communicator.rank()];
    const auto sum = [&] { return communicator.all_reduce_async(own.data(), own.data(), kLarge, DataType::Float32); };
    sum().value().wait().value();
    if (communicator.rank() == 1) return;
    const Status status = sum().value().wait(30'000);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Timeout) << status.error().message;
    EXPECT_EQ(status.error().failed_rank, 1) << status.error().message;
  });
}

INSTANTIATE_TEST_SUITE_P(Places, CallsByBlocks, testing::ValuesIn(places()), name_of);

}  // namespace
}  // namespace wreath::test::blocks_of_calls
