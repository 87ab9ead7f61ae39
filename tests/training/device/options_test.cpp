// The values that --device takes, and the options that are refused with it.
#include "examples/train_gpt/train/options.hpp"

#include <gtest/gtest.h>

#include <string>

#include "examples/train_gpt/run/device.hpp"

namespace wreath::gpt::test {
namespace {

TEST(DeviceOption, IsNoneTheHostsOrAGpu) {
  EXPECT_EQ(find_device("", {}).value(), nullptr);
  EXPECT_EQ(find_device("host", {}).value(), &host_device());
  for (const std::string name : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999"}) {
    const Result<Device*> device = find_device(name, {});
    ASSERT_FALSE(device) << name;
    EXPECT_EQ(device.error().code, ErrorCode::InvalidArgument);
    EXPECT_EQ(device.error().message, "--device " + name + ": must be cuda, cuda:N or host");
  }
}

TEST(DeviceOption, WithoutAGpuIsUnavailable) {
  if (cuda_devices()) GTEST_SKIP() << "there is a GPU here: run it on a machine without one";
  const Result<Device*> device = find_device("cuda", {});
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::Unavailable);
  EXPECT_EQ(device.error().message.find("--device cuda: "), 0u) << device.error().message;
}

TEST(DeviceOption, RefusesWhatADeviceCannotByName) {
  TrainOptions options;
  options.device = &host_device();
  EXPECT_TRUE(check(options));
  options.offload_folder = "somewhere";
  EXPECT_EQ(check(options).error().message, "--offload: not with --device, where state lies in device memory");
  options.offload_folder.clear();
  options.model.heads = 1;
  options.model.width = 256;
  EXPECT_EQ(check(options).error().message, "--device: heads of 256 values (--width / --heads), 128 at most");
}

}  // namespace
}  // namespace wreath::gpt::test
