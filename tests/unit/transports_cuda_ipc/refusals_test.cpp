// What the driver refuses: only the one that stands for it can be asked to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "src/device/cuda/abi.hpp"
#include "tests/support/fake_cuda.hpp"
#include "tests/unit/transports_cuda_ipc/ends.hpp"

namespace wreath {
namespace {

using test::DeviceEnd;
using testing::HasSubstr;

constexpr FifoShape kShape{.lanes = 1, .slot_count = 4, .slot_bytes = 4096, .first_sequence = 0, .epoch = 0};
constexpr const char* kNeeds = "not the stand-in for CUDA: run it as unit_transports_cuda_ipc_fake_cuda";

LibraryDevice& cuda(int number) { return static_cast<LibraryDevice&>(*cuda_device(number).value()); }

class Refused : public testing::Test {
 protected:
  void SetUp() override {
    static_cast<void>(cuda_devices());
    fake = test::FakeCuda::find();
    if (!fake) GTEST_SKIP() << kNeeds;
  }
  // Of a peer on `number`, as if in another process.
  Result<std::unique_ptr<Link>> link(int number) const {
    const DeviceEnd own(cuda(0), 0, 1, kShape);
    const DeviceEnd peer(cuda(number), 1, 2, kShape);
    Offer offer = peer.offer(own.endpoint);
    offer.bytes[sizeof(std::uint64_t)] ^= std::byte{1};  // an id that this process does not know
    return own.connect(peer.endpoint, std::move(offer));
  }
  test::FakeCuda fake{};
};

TEST_F(Refused, ImportsLeaveNothing) {
  static_cast<void>(link(0));
  const int alive = fake.alive();
  for (const std::string call :
       {"cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"}) {
    const DeviceEnd own(cuda(0), 0, 1, kShape);
    const DeviceEnd peer(cuda(0), 1, 2, kShape);
    Offer offer = peer.offer(own.endpoint);
    offer.bytes[sizeof(std::uint64_t)] ^= std::byte{1};
    fake.fail(call.c_str(), kCudaInvalidValue, 1);
    const auto refused = own.connect(peer.endpoint, std::move(offer));
    ASSERT_FALSE(refused) << call;
    EXPECT_EQ(refused.error().code, ErrorCode::System);
    EXPECT_THAT(refused.error().message, HasSubstr("the control segment of rank 1: cuda:0: " + call));
  }
  EXPECT_EQ(fake.alive(), alive);
}

TEST_F(Refused, SegmentsAreErrorsThatNameThem) {
  const int alive = fake.alive();
  fake.fail("cuMemCreate", kCudaOutOfMemory, 1);
  const auto segment = OwnSegment::create(0, 2, kShape, device_segment_memory(cuda(0)));
  ASSERT_FALSE(segment);
  EXPECT_THAT(segment.error().message, HasSubstr("control segment: cuda:0: cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY"));
  EXPECT_EQ(fake.alive(), alive);
}

TEST_F(Refused, AccessIsTheDriversWord) {
  const DeviceEnd own(cuda(0), 0, 1, kShape);
  const DeviceEnd other(cuda(1), 1, 2, kShape);
  EXPECT_TRUE(own.transport->reachable(own.endpoint, other.endpoint));
  fake.fail("cuDeviceCanAccessPeer", kCudaNotSupported, 1);
  const Status refused = own.transport->reachable(own.endpoint, other.endpoint);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              HasSubstr("rank 1 is on another device: cuda:0 cannot access cuda:1, which it reaches by "));
  const EndpointDevice hidden{EndpointDevice::Kind::Cuda, {1, 2, 3}};  // by CUDA_VISIBLE_DEVICES
  EXPECT_TRUE(own.transport->reachable(own.endpoint, {1, 2, 1, hidden}));
}

// Two GPUs of one process: their memory is let to each other, and not imported.
TEST_F(Refused, AccessBetweenDevicesOfAProcess) {
  const DeviceEnd own(cuda(0), 0, 1, kShape);
  const DeviceEnd other(cuda(1), 1, 1, kShape);
  const auto link = own.connect(other.endpoint, other.offer(own.endpoint));
  ASSERT_TRUE(link) << link.error().message;
  EXPECT_EQ((*link)->mapped()->small_area, other.segment->small_area());
  fake.fail("cuMemSetAccess", kCudaInvalidValue, 1);
  const auto refused = own.connect(other.endpoint, other.offer(own.endpoint));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("cuda:1: cuMemSetAccess"));
}

// Without descriptors memory has handles, which the process that made them cannot open.
TEST_F(Refused, HandlesOfThisProcess) {
  fake.fail("cuDeviceGetAttribute", kCudaNotSupported, 1'000);
  const auto refused = link(0);
  fake.other_process(1);
  const auto linked = link(0);
  fake.other_process(0);
  fake.fail("cuDeviceGetAttribute", kCudaSuccess, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("memory of this process was to be imported: it is there already"));
  EXPECT_TRUE(linked) << linked.error().message;
}

}  // namespace
}  // namespace wreath
