// Tests calls in the streams of a CUDA device and on its memory. With the fake CUDA driver (test
// conformance_device_fake_cuda) they run on any machine.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"
#include "wreath/device.hpp"

namespace wreath::test::cuda_streams {
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

// Calls work on copies in pinned memory: large and small ones, of one rank and of several, and as messages.
TEST_F(CallsInCudaStreams, TakeTheDevicesOwnMemory) {
  for (const std::size_t count : {std::size_t{3}, kCount}) {
    for (const int n : {1, 3}) {
      LocalRanks ranks(n, {});
      ranks.run([&](Communicator& communicator) {
        std::vector<float> values(count, 1);
        const DeviceMemory memory = device().allocate(count * sizeof(float)).value();
        auto* const data = reinterpret_cast<float*>(memory.data());
        device().copy(data, values.data(), memory.size()).value();
        for (int repeat = 0; repeat < 3; ++repeat) {
          communicator.all_reduce(data, data, count, DataType::Float32).value();
        }
        if (n > 1 && communicator.rank() == 0) communicator.send(data, count, DataType::Float32, 1).value();
        if (n > 1 && communicator.rank() == 1) communicator.recv(data, count, DataType::Float32, 0).value();
        device().copy(values.data(), data, memory.size()).value();
        EXPECT_EQ(values, std::vector<float>(count, n == 1 ? 1 : 27));
      });
    }
  }
}

void expect_refused(const Status& status, const std::string& text) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::InvalidArgument);
  EXPECT_NE(status.error().message.find(text), std::string::npos) << status.error().message;
}

TEST_F(CallsInCudaStreams, RefuseMemoryOfAnotherDeviceByName) {
  const RecordingsFolder kept;
  const DeviceMemory memory = device().allocate(64).value();
  const DeviceMemory far = host_device().allocate(64).value();
  const auto stream = host_device().make_stream().value();
  auto* const data = reinterpret_cast<float*>(memory.data());
  {
    LocalRanks ranks(1, {});
    Communicator& communicator = ranks.communicators().front();
    expect_refused(communicator.all_reduce(data, reinterpret_cast<float*>(far.data()), 1, DataType::Float32),
                   "is memory of cuda:0, output = ");
  }
  {
    LocalRanks ranks(1, {});
    Call call;
    call.input = call.output = memory.data();
    call.count = 1;
    call.stream = stream.get();
    expect_refused(ranks.communicators().front().run(call), "is memory of cuda:0, stream is one of host");
  }
  LocalRanks pair(2, {});
  expect_refused(pair.communicators().front().send_async(data, 1, DataType::Float32, 1, stream.get()).error(),
                 "is memory of cuda:0, stream is one of host");
}

}  // namespace
}  // namespace wreath::test::cuda_streams
