// Provides the first device of the driver that stands for CUDA's, and checks that a test frees there what it made.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>

#include "src/device/cuda/platform.hpp"
#include "tests/support/fake_cuda.hpp"

namespace wreath::test {

inline constexpr const char* kNeedsFake =
    "needs the driver that stands for CUDA's: run it as ctest -R unit_device_fake_cuda";

class FakeDevice : public testing::Test {
 protected:
  void SetUp() override {
    static_cast<void>(cuda_devices());
    fake_ = FakeCuda::find();
    if (!fake_) GTEST_SKIP() << kNeedsFake;
    device_ = CudaPlatform::opened()->device(0).value();
    alive_ = fake_.alive();
  }
  void TearDown() override {
    if (!fake_) return;
    fake_.lose(0);
    fake_.other_process(0);
    EXPECT_EQ(fake_.alive(), alive_) << "something was not freed";
  }

  FakeCuda fake_{};
  CudaDevice* device_ = nullptr;
  int alive_ = 0;
};

// Holds whole pages of the host's memory, for kernels.
struct HostPage {
  alignas(4096) std::array<std::byte, 8192> bytes{};
};

}  // namespace wreath::test
