// Tests the end of work in flight when its communicator fails and is destroyed.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/surroundings.hpp"
#include "wreath/wreath.hpp"

namespace wreath::test {
namespace {

class EndOfWork : public testing::Test {
 protected:
  RecordingsFolder recordings_;
};

// A program that destroys a communicator as soon as it failed may be faster than the thread that ends its work.
TEST_F(EndOfWork, ComesWithTheEndOfAFailedCommunicator) {
  constexpr int kTurns = 100;
  for (int turn = 0; turn < kTurns; ++turn) {
    auto communicators = Communicator::create_local(2).value();
    std::vector<float> data(1000, 1.0f);
    Work work = communicators[0].all_reduce_async(data.data(), data.data(), data.size(), DataType::Float32).value();
    std::jthread other([&] { EXPECT_TRUE(communicators[1].abort()); });
    while (communicators[0].error()) std::this_thread::yield();
    { const Communicator ending = std::move(communicators[0]); }
    ASSERT_TRUE(work.done()) << "turn " << turn;
    EXPECT_EQ(work.wait().error().code, ErrorCode::Aborted);
  }
}

// Each rank makes more calls than the flight recorder holds, waits for none and destroys its communicator: all calls
// are done.
TEST_F(EndOfWork, LosesNothingThatWasDropped) {
  constexpr std::size_t kCalls = 600;
  auto communicators = Communicator::create_local(2).value();
  std::vector<std::vector<std::int32_t>> data(2, std::vector<std::int32_t>(kCalls, 21));
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator communicator = std::move(communicators[rank]);
      for (std::size_t i = 0; i < kCalls; ++i) {
        std::int32_t* value = &data[rank][i];
        EXPECT_TRUE(communicator.all_reduce_async(value, value, 1, DataType::Int32));
      }
    });
  }
  threads.clear();
  for (const auto& values : data) EXPECT_EQ(values, std::vector<std::int32_t>(kCalls, 42));
}

// A root is done when its data is on the way. A peer that comes late still gets the data, over a wire, too.
TEST_F(EndOfWork, OfARootLeavesItsDataBehind) {
  for (const std::string transport : {"inproc", "tcp"}) {
    CommunicatorOptions options;
    options.transports = {transport};
    auto communicators = Communicator::create_local(2, options).value();
    // The data fits the slots, but is more than the peer's machine accepts before somebody reads it.
    constexpr std::size_t kCount = 100'000;
    std::vector<std::int32_t> theirs(kCount);
    std::atomic<bool> done = false;
    std::atomic<bool> left = false;
    std::jthread root([&] {
      {
        Communicator leaving = std::move(communicators[0]);
        std::vector<std::int32_t> own(kCount, 7);
        EXPECT_TRUE(leaving.broadcast(std::span(own), 0));
        done = true;
      }
      left = true;
    });
    for (int i = 0; i < 10'000 && !done; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(done) << transport;
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    EXPECT_FALSE(left) << transport << ": its data is not with its peer";
    EXPECT_TRUE(communicators[1].broadcast(std::span(theirs), 0)) << transport;
    EXPECT_EQ(theirs, std::vector<std::int32_t>(kCount, 7)) << transport;
  }
}

}  // namespace
}  // namespace wreath::test
