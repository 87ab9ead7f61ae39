// Calls in the streams of a CUDA device, on pinned memory: its own memory is refused by name. With the driver that
// stands for CUDA's (test conformance_device_fake_cuda) on any machine.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"
#include "wreath/device.hpp"

namespace wreath::test {
namespace {

constexpr std::size_t kCount = 10'000;
constexpr std::size_t kBytes = kCount * sizeof(float);
constexpr const char* kNeedsCuda = "no CUDA device: run it as ctest -R conformance_device_fake_cuda";

class CallsInCudaStreams : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_devices()) GTEST_SKIP() << kNeedsCuda;
  }
  static Device& device() { return *cuda_device(0).value(); }
};

TEST_F(CallsInCudaStreams, RunBetweenTheCopiesAroundThem) {
  for (const char* transport : {"inproc", "tcp"}) {
    CommunicatorOptions options;
    options.transports = {transport};
    LocalRanks ranks(3, options);
    ranks.run([&](Communicator& communicator) {
      const std::vector<float> source(kCount, static_cast<float>(communicator.rank() + 1));
      std::vector<float> target(kCount);
      const DeviceMemory own = device().allocate(kBytes).value();
      const DeviceMemory input = device().allocate(kBytes, MemoryUse::Pinned).value();
      const DeviceMemory output = device().allocate(kBytes, MemoryUse::Pinned).value();
      const auto stream = device().make_stream().value();
      Call call;
      call.input = input.data();
      call.output = output.data();
      call.count = kCount;
      call.stream = stream.get();
      for (int repeat = 0; repeat < 20; ++repeat) {
        stream->copy(own.data(), source.data(), kBytes).value();
        stream->copy(input.data(), own.data(), kBytes).value();
        communicator.start(call).value();
        stream->copy(target.data(), output.data(), kBytes).value();
      }
      stream->synchronize().value();
      EXPECT_EQ(target, std::vector<float>(kCount, 6));
    });
  }
}

void expect_refused(const Status& status, const std::string& argument) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::InvalidArgument);
  EXPECT_NE(status.error().message.find("is memory of cuda:0, which no transport takes yet"), std::string::npos)
      << status.error().message;
  EXPECT_NE(status.error().message.find(argument + " = "), std::string::npos) << status.error().message;
}

TEST_F(CallsInCudaStreams, RefuseTheDevicesOwnMemoryByName) {
  const RecordingsFolder kept;
  const DeviceMemory memory = device().allocate(64).value();
  auto* const data = reinterpret_cast<float*>(memory.data());
  {
    LocalRanks ranks(1, {});
    float value = 1;
    Communicator& communicator = ranks.communicators().front();
    for (int repeat = 0; repeat < 3; ++repeat) communicator.all_reduce(&value, &value, 1, DataType::Float32).value();
    expect_refused(communicator.all_reduce(&value, data, 1, DataType::Float32), "output");  // as a repeated call
  }
  LocalRanks ranks(1, {});
  expect_refused(ranks.communicators().front().all_reduce(data, data, 1, DataType::Float32), "input");
  LocalRanks pair(2, {});
  expect_refused(pair.communicators().front().send(data, 1, DataType::Float32, 1), "input");
}

}  // namespace
}  // namespace wreath::test
