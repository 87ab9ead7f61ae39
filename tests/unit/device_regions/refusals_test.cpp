// Tests refusals of the driver: only the driver that stands for CUDA's can be asked to refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "src/device/cuda/abi.hpp"
#include "src/device/runs/device_segment_memory.hpp"
#include "tests/support/fake_cuda.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;

LibraryDevice& cuda(int number) { return static_cast<LibraryDevice&>(*cuda_device(number).value()); }

class Refused : public testing::Test {
 protected:
  void SetUp() override {
    static_cast<void>(cuda_devices());
    fake = test::FakeCuda::find();
    if (!fake) GTEST_SKIP() << "not the stand-in for CUDA: run it as unit_device_regions_fake_cuda";
  }
  // Returns what cuda:0 makes of memory of cuda:`owner`, as if the memory were another process's.
  Result<std::shared_ptr<Region>> import(int owner) const {
    const auto memory = device_segment_memory(cuda(owner));
    auto region = memory->create(70'000, "memory");
    if (!region) return region.error();
    auto offer = memory->describe(**region, true);
    if (!offer) return offer.error();
    // The new id is one that this process does not know.
    (*offer)->bytes[sizeof(std::uint64_t)] ^= std::byte{1};
    return device_segment_memory(cuda(0))->open(*std::move(*offer));
  }
  test::FakeCuda fake{};
};

TEST_F(Refused, ImportsLeaveNothing) {
  ASSERT_TRUE(import(0));
  const int alive = fake.alive();
  const auto memory = device_segment_memory(cuda(0));
  for (const std::string call :
       {"cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"}) {
    const auto region = memory->create(70'000, "memory").value();
    Offer offer = *std::move(memory->describe(*region, true).value());
    offer.bytes[sizeof(std::uint64_t)] ^= std::byte{1};
    fake.fail(call.c_str(), kCudaInvalidValue, 1);
    const auto refused = memory->open(std::move(offer));
    ASSERT_FALSE(refused) << call;
    EXPECT_EQ(refused.error().code, ErrorCode::System);
    EXPECT_THAT(refused.error().message, HasSubstr("cuda:0: " + call));
  }
  EXPECT_EQ(fake.alive(), alive);
}

TEST_F(Refused, MemoryIsAnErrorThatNamesIt) {
  static_cast<void>(cuda(0));
  const int alive = fake.alive();
  fake.fail("cuMemCreate", kCudaOutOfMemory, 1);
  const auto refused = device_segment_memory(cuda(0))->create(70'000, "an area");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("an area: cuda:0: cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY"));
  EXPECT_EQ(fake.alive(), alive);
}

TEST_F(Refused, AccessIsTheDriversWord) {
  EXPECT_TRUE(cuda(0).reaches(cuda(1).identity()));
  fake.fail("cuDeviceCanAccessPeer", kCudaNotSupported, 1);
  const Status refused = cuda(0).reaches(cuda(1).identity());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("cuda:0 cannot access cuda:1, which it reaches by "));
  // CUDA_VISIBLE_DEVICES hides a device like this.
  const EndpointDevice hidden{EndpointDevice::Kind::Cuda, {1, 2, 3}};
  EXPECT_TRUE(cuda(0).reaches(hidden));
}

// Two GPUs of one process get access to each other's memory, and do not import it.
TEST_F(Refused, AccessBetweenDevicesOfAProcess) {
  const auto owner = device_segment_memory(cuda(1));
  const auto region = owner->create(70'000, "memory").value();
  EXPECT_EQ(fake.reaches(0, region->data()), 0);
  const auto opened = device_segment_memory(cuda(0))->open(*std::move(owner->describe(*region, true).value()));
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(*opened, region);
  EXPECT_GT(fake.reaches(0, region->data()), 0);
  fake.fail("cuMemSetAccess", kCudaInvalidValue, 1);
  const auto refused = device_segment_memory(cuda(0))->open(*std::move(owner->describe(*region, true).value()));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("cuda:1: cuMemSetAccess"));
}

// Without descriptors memory has handles, and the process that made a handle cannot open it.
TEST_F(Refused, HandlesOfThisProcess) {
  fake.fail("cuDeviceGetAttribute", kCudaNotSupported, 1'000);
  const auto refused = import(0);
  fake.other_process(1);
  const auto opened = import(0);
  fake.other_process(0);
  fake.fail("cuDeviceGetAttribute", kCudaSuccess, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("memory of this process was to be imported: it is there already"));
  EXPECT_TRUE(opened) << opened.error().message;
}

}  // namespace
}  // namespace wreath
