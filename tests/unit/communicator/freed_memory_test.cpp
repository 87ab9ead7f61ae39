// Tests memory of wreath::allocate that a program frees while a call uses it. The call ends as if the memory were still
// there, and then the memory is gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>

#include "src/base/region.hpp"
#include "tests/support/local_ranks.hpp"
#include "tests/support/transports.hpp"

namespace wreath {
namespace {

class FreedMemory : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Transports, FreedMemory, testing::ValuesIn(test::usable_transports()),
                         [](const auto& each) { return each.param; });

using Allocated = std::remove_cvref_t<decltype(allocate(1).value())>;

// So much data is read in place where the transport can do so.
constexpr std::size_t kCount = 300'000;

std::optional<Allocated> filled(float value) {
  std::optional<Allocated> memory = allocate(kCount * sizeof(float)).value();
  std::fill_n(reinterpret_cast<float*>(memory->data()), kCount, value);
  return memory;
}

// Rank 0 frees its memory before the other ranks come to the call.
TEST_P(FreedMemory, StaysUntilTheCallsThatUseItAreOver) {
  const std::size_t before = region_count();
  {
    CommunicatorOptions options;
    options.transports = {GetParam()};
    test::LocalRanks ranks(3, options);
    std::atomic<bool> freed = false;
    ranks.run([&](Communicator& communicator) {
      std::optional<Allocated> memory = filled(static_cast<float>(communicator.rank() + 1));
      auto* const data = reinterpret_cast<float*>(memory->data());
      while (communicator.rank() != 0 && !freed) std::this_thread::yield();
      Work sum = communicator.all_reduce_async(data, data, kCount, DataType::Float32, ReduceOp::Sum).value();
      if (communicator.rank() == 0) {
        memory.reset();
        freed = true;
      }
      EXPECT_TRUE(sum.wait());
      if (communicator.rank() != 0) {
        EXPECT_EQ(std::count(data, data + kCount, 6.0f), static_cast<std::ptrdiff_t>(kCount));
      }
    });
  }
  EXPECT_EQ(region_count(), before);
}

TEST_P(FreedMemory, StaysUntilItsMessagesAreOver) {
  const std::size_t before = region_count();
  {
    CommunicatorOptions options;
    options.transports = {GetParam()};
    test::LocalRanks ranks(2, options);
    std::atomic<bool> freed = false;
    ranks.run([&](Communicator& communicator) {
      std::optional<Allocated> memory = filled(static_cast<float>(communicator.rank() + 1));
      auto* const data = reinterpret_cast<float*>(memory->data());
      if (communicator.rank() == 0) {
        Work sent = communicator.send_async(data, kCount, DataType::Float32, 1).value();
        memory.reset();
        freed = true;
        EXPECT_TRUE(sent.wait());
      } else {
        while (!freed) std::this_thread::yield();
        EXPECT_TRUE(communicator.recv(data, kCount, DataType::Float32, 0));
        EXPECT_EQ(std::count(data, data + kCount, 1.0f), static_cast<std::ptrdiff_t>(kCount));
      }
    });
  }
  EXPECT_EQ(region_count(), before);
}

}  // namespace
}  // namespace wreath
