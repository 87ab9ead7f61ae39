// In a build without devices each call that needs one returns an error, which names the command that adds devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>

#include "wreath/device.hpp"
#include "wreath/kernel.hpp"
#include "wreath/wreath.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;

constexpr const char* kWhy = "this build has no devices (cmake -DWREATH_DEVICE=ON adds them)";

template <typename R>
void expect_unavailable(const R& result) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::Unavailable);
  EXPECT_THAT(result.error().message, HasSubstr(kWhy));
}

TEST(NoDevice, IsWhatEveryCallSays) {
  expect_unavailable(cuda_devices());
  expect_unavailable(cuda_device(0));
  Device& none = host_device();
  EXPECT_EQ(none.name(), "none");
  expect_unavailable(none.allocate(16));
  expect_unavailable(none.make_stream());
  expect_unavailable(none.make_event());
  std::array<int, 2> values{1, 2};
  expect_unavailable(none.copy(values.data(), &values[1], sizeof(int)));
  EXPECT_EQ(values[0], 1);
  expect_unavailable(use_cuda_stream(none, nullptr));
  expect_unavailable(resident_blocks(none, {"kernel", nullptr, nullptr}, 32));
}

TEST(NoDevice, OwnsNoMemory) {
  int value = 0;
  EXPECT_EQ(device_of_memory(&value), nullptr);
  EXPECT_EQ(current_cuda_device(), nullptr);
  EXPECT_EQ(address_in_kernels(host_device(), &value), &value);
}

TEST(NoDevice, IsNoDeviceOfACommunicator) {
  for (const char* const name : {"host", "cuda:0"}) {
    CommunicatorOptions options;
    options.device = name;
    const auto made = Communicator::create_local(2, options);
    expect_unavailable(made);
    EXPECT_THAT(made.error().message, HasSubstr(std::string("device (WREATH_DEVICE) = ") + name + ": "));
  }
}

TEST(NoDevice, LeavesCommunicatorsOfTheHostAsTheyAre) {
  CommunicatorOptions options;
  options.device = "none";
  auto ranks = Communicator::create_local(1, options).value();
  std::array<float, 3> values{1, 2, 3};
  EXPECT_TRUE(ranks[0].all_reduce(std::span<const float>(values), std::span<float>(values)));
  EXPECT_EQ(values[2], 3);
}

}  // namespace
}  // namespace wreath
