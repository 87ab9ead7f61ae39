// A rank aborts in the middle of calls on a device's memory and frees the memory at once. A peer of its process, whose
// blocks or host read it in place, may be reading it. The peer's call fails, and no freed memory is touched.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/support/local_ranks.hpp"
#include "tests/support/processes.hpp"
#include "wreath/device.hpp"

namespace wreath::test {
namespace {

constexpr std::size_t kCount = 300'000;

// Holds a rank's buffer: a device's memory, or ordinary memory.
class Buffer {
 public:
  explicit Buffer(bool device) {
    if (device) device_ = host_device().allocate(kCount * sizeof(float)).value();
    if (!device) host_.resize(kCount);
  }
  float* data() { return host_.empty() ? reinterpret_cast<float*>(device_->data()) : host_.data(); }

 private:
  std::optional<DeviceMemory> device_;
  std::vector<float> host_;
};

void reduce_until_failure(Communicator& communicator, bool device) {
  auto buffer = std::make_unique<Buffer>(device);
  Status last;
  while (last) last = communicator.all_reduce(std::span(buffer->data(), kCount));
  buffer.reset();
  EXPECT_TRUE(last.error().code == ErrorCode::Aborted || last.error().code == ErrorCode::PeerLost)
      << last.error().message;
}

TEST(FreedMemory, OfADeviceIsNotReadAfterAnAbort) {
  CommunicatorOptions options;
  options.transports = {"inproc"};
  for (int round = 0; round < testing_support::rounds(60, 2'000); ++round) {
    LocalRanks ranks(3, options);
    Communicator& aborting = ranks.communicators().front();
    std::jthread watch([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(300 * (round % 40)));
      static_cast<void>(aborting.abort());
    });
    ranks.run([&](Communicator& communicator) { reduce_until_failure(communicator, communicator.rank() != 2); });
  }
}

}  // namespace
}  // namespace wreath::test
