// Tests that no thread that sleeps for an adapter misses the adapter's event. The sleeps are far longer than the tests.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/support/processes.hpp"
#include "tests/support/surroundings.hpp"
#include "tests/unit/wires/double.hpp"
#include "wreath/wreath.hpp"

namespace wreath::test {
namespace {

constexpr std::int64_t kSleepMs = 60'000;
constexpr std::int64_t kLostMs = 20'000;
constexpr int kRingDelayUs = 100;

class Sleeper : public testing::Test {
 protected:
  Sleeper() {
    reset_adapters();
    for (const int rank : {0, 1}) adapter_of(rank).ring_delay_us = kRingDelayUs;
    CommunicatorOptions options;
    options.debug.longest_sleep_ms = kSleepMs;
    options.timeouts.stall_ms = options.timeouts.arrival_ms = 10 * kSleepMs;
    communicators_ = Communicator::create_local(2, options).value();
  }
  static Status receive_blocking(Communicator& communicator, std::int32_t& value) {
    return communicator.recv(std::span(&value, 1), 1 - communicator.rank());
  }
  // Lets rank 1 answer each of rank 0's messages, after random times, and counts the answers that came too late. Rank 0
  // receives by `receive`.
  template <typename Receive>
  int late_of(int rounds, Receive receive) {
    std::jthread other([&] {
      std::mt19937 random(11);
      for (int round = 0; round < rounds; ++round) {
        std::int32_t value = 0;
        ASSERT_TRUE(receive_blocking(communicators_[1], value));
        ASSERT_EQ(value, round);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
        ASSERT_TRUE(communicators_[1].send(std::span<const std::int32_t>(&value, 1), 0));
      }
    });
    int late = 0;
    for (std::int32_t round = 0; round < rounds; ++round) {
      std::int32_t value = -1;
      const Deadline lost = Deadline::after_ms(kLostMs);
      EXPECT_TRUE(communicators_[0].send(std::span<const std::int32_t>(&round, 1), 1));
      EXPECT_TRUE(receive(communicators_[0], value));
      EXPECT_EQ(value, round);
      if (lost.passed()) ++late;
    }
    return late;
  }

  // Drivers sleep at once.
  Environment environment_{{{"WREATH_SPIN_US", "0"}}};
  RecordingsFolder recordings_;
  std::vector<Communicator> communicators_;
};

TEST_F(Sleeper, ThatDrivesMissesNoEvent) {
  const auto wanted = static_cast<std::uint64_t>(testing_support::rounds(2'000 / testing_support::kSlower, 10'000));
  constexpr int kRounds = 500;
  std::uint64_t sleeps = 0;
  while (sleeps < wanted) {
    ASSERT_EQ(late_of(kRounds, receive_blocking), 0);
    sleeps = adapter_of(0).sleeps + adapter_of(1).sleeps;
  }
  EXPECT_GT(adapter_of(0).rings + adapter_of(1).rings, 0u);
}

// Rank 0 only looks whether its call is done, so that the progress thread drives and sleeps. Rank 1 never wakes it.
TEST_F(Sleeper, ThatServesTheProcessMissesNoEvent) {
  const auto receive = [](Communicator& communicator, std::int32_t& value) -> Status {
    auto work = communicator.recv_async(&value, 1, DataType::Int32, 1 - communicator.rank());
    if (!work) return work.error();
    while (!work->done()) std::this_thread::sleep_for(std::chrono::microseconds(50));
    return work->wait();
  };
  const int round_count = testing_support::rounds(300 / testing_support::kSlower, 1'000);
  EXPECT_EQ(late_of(round_count, receive), 0);
  EXPECT_GT(adapter_of(0).sleeps, 0u);
}

}  // namespace
}  // namespace wreath::test
