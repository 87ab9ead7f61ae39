// Calls on memory of a device, which its blocks run: on the host device, and, with the driver that stands for CUDA's
// (test conformance_device_fake_cuda), on a CUDA device.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::test {
namespace {

constexpr std::size_t kCount = 10'000;
constexpr std::size_t kBytes = kCount * sizeof(float);

struct Place {
  const char* device;
  const char* transport;
};

std::vector<Place> places() {
  std::vector<Place> all;
  for (const char* transport : {"inproc", "shm", "tcp"}) all.push_back({"host", transport});
  return all;
}

class CallsByBlocks : public testing::TestWithParam<Place> {
 protected:
  static Device& device() { return host_device(); }
  static CommunicatorOptions options() {
    CommunicatorOptions options;
    options.transports = {GetParam().transport};
    return options;
  }
};

std::vector<float> read(Device& device, const DeviceMemory& memory) {
  std::vector<float> values(memory.size() / sizeof(float));
  device.copy(values.data(), memory.data(), memory.size()).value();
  return values;
}

TEST_P(CallsByBlocks, SumWhatAllRanksHave) {
  LocalRanks ranks(2, options());
  ranks.run([&](Communicator& communicator) {
    const std::vector<float> source(kCount, static_cast<float>(communicator.rank() + 1));
    const DeviceMemory input = device().allocate(kBytes).value();
    const DeviceMemory output = device().allocate(kBytes).value();
    device().copy(input.data(), source.data(), kBytes).value();
    for (int repeat = 0; repeat < 3; ++repeat) {
      communicator
          .all_reduce(reinterpret_cast<const float*>(input.data()), reinterpret_cast<float*>(output.data()), kCount,
                      DataType::Float32)
          .value();
      EXPECT_EQ(read(device(), output), std::vector<float>(kCount, 3));
    }
  });
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
    const std::string text = std::string(buffer) + " in memory of host of " + std::to_string(kBytes) + " bytes at ";
    EXPECT_NE(refused.error().message.find(text), std::string::npos) << refused.error().message;
  }
}

std::string name_of(const testing::TestParamInfo<Place>& info) {
  return std::string(info.param.device) + "_" + info.param.transport;
}
INSTANTIATE_TEST_SUITE_P(Places, CallsByBlocks, testing::ValuesIn(places()), name_of);

}  // namespace
}  // namespace wreath::test
