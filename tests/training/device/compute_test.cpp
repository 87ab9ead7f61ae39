// Compute knows whose memory an address is, gives memory out again, and copies.
#include "training/compute/compute.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/training/device/on_device.hpp"

namespace wreath::training::test {
namespace {

TEST(Compute, FunctionsFindItByAnAddressInItsMemory) {
  const Values here(10);
  EXPECT_EQ(compute_of(std::span<const float>(here)), nullptr);
  Place one, other;
  const There first(one, here), second(other, here);
  EXPECT_EQ(compute_of(first.span()), one.compute.get());
  EXPECT_EQ(compute_of(first.data() + 9), one.compute.get());
  EXPECT_EQ(compute_of(second.span()), other.compute.get());
  EXPECT_EQ(compute_of(std::span<float>()), nullptr);
}

TEST(Compute, MemoryIsCountedAndUsedAgain) {
  Place place;
  const float* before = nullptr;
  {
    const Buffer<float> large(place.memory, MemoryTag::Activations, 3'000'000);
    before = large.data();
    EXPECT_EQ(place.memory.bytes(MemoryTag::Activations), 12'000'000u);
  }
  const Buffer<float> again(place.memory, MemoryTag::Activations, 2'999'999);
  EXPECT_EQ(again.data(), before);
  Values values(again.size(), 1.0f);
  copy<float>(again.span(), values);
  // The memory is zero, although it was used before.
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0f), 0.0f);
}

TEST(Compute, CheckpointsMemoryIsTheHosts) {
  Place place;
  const Buffer<float> copies(place.memory, MemoryTag::Checkpoint, 5);
  EXPECT_EQ(compute_of(copies.span()), nullptr);
}

// One copy is larger than what is staged at once, and many are small. Their sources are freed before the copies run.
TEST(Compute, CopiesFromTheHostNeedNotBeWaitedFor) {
  Place place;
  Values values(2'500'001);
  std::iota(values.begin(), values.end(), 1.0f);
  const There there(place, values);
  std::vector<std::unique_ptr<There<float>>> several;
  for (int i = 0; i < 3000; ++i) several.push_back(std::make_unique<There<float>>(place, Values(700, float(i))));
  EXPECT_EQ(there.read(), values);
  for (int i = 0; i < 3000; i += 271) EXPECT_EQ(several[std::size_t(i)]->read(), Values(700, float(i)));
}

TEST(Compute, FailsInWordsWhereTheDeviceHasNoMemory) {
  Place place;
  try {
    const Buffer<float> buffer(place.memory, MemoryTag::Activations, std::size_t{1} << 50, Contents::Undefined);
    FAIL() << "no error";
  } catch (const std::bad_alloc& failure) {
    EXPECT_NE(std::string(failure.what()).find("for activations cannot be had"), std::string::npos) << failure.what();
  }
}

}  // namespace
}  // namespace wreath::training::test
