// Tests that a call allocates no memory once calls like it were made before.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#include <vector>

#include "tests/support/local_ranks.hpp"

namespace {

std::atomic<bool> g_counts{false};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<int> g_allocations{0};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

// Replaces the standard library's operator for the whole program; the library's forms for arrays call this one. It is
// not inlined, since a compiler that sees malloc() here takes it for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (g_counts.load(std::memory_order_relaxed)) g_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes > 0 ? bytes : 1);
}
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* const memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace wreath::test {
namespace {

struct Cost {
  std::string transport;
  std::size_t count;
};

class CallCost : public testing::TestWithParam<Cost> {};

// The test takes the least of some rounds: where other programs have the cores for long, ranks ask each other where
// they are.
TEST_P(CallCost, IsNoMemoryOnceWarm) {
  constexpr int kRounds = 5;
  CommunicatorOptions options;
  options.transports = {GetParam().transport};
  LocalRanks all(2, options);
  std::vector<std::vector<float>> data(2, std::vector<float>(GetParam().count));
  std::vector<std::vector<float>> results = data;
  const auto call_all = [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const std::vector<float>& mine = data[rank];
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(communicator.all_reduce(mine.data(), results[rank].data(), mine.size(), DataType::Float32));
      ASSERT_TRUE(communicator.broadcast(mine.data(), results[rank].data(), mine.size(), DataType::Float32, 1));
      ASSERT_TRUE(communicator.barrier());
    }
  };
  all.run(call_all);
  int fewest = std::numeric_limits<int>::max();
  for (int round = 0; round < kRounds && fewest > 0; ++round) {
    all.run([&](Communicator& communicator) {
      ASSERT_TRUE(communicator.barrier());
      if (communicator.rank() == 0) g_counts = true;
      call_all(communicator);
      if (communicator.rank() == 0) g_counts = false;
    });
    fewest = std::min(fewest, g_allocations.exchange(0));
  }
  EXPECT_EQ(fewest, 0);
  g_counts = true;
  ::operator delete(::operator new(1));
  g_counts = false;
  // The count above means something only if the operator counts at all.
  EXPECT_EQ(g_allocations.exchange(0), 1);
}

INSTANTIATE_TEST_SUITE_P(Ways, CallCost,
                         testing::Values(Cost{"inproc", 2}, Cost{"inproc", 100'000}, Cost{"shm", 2}, Cost{"shm", 5'000},
                                         Cost{"shm", 100'000}, Cost{"tcp", 2}, Cost{"tcp", 100'000}),
                         [](const auto& row) { return row.param.transport + "_" + std::to_string(row.param.count); });

}  // namespace
}  // namespace wreath::test
