// Tests that blocking calls run on their caller's thread: the progress thread sleeps through them.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/processes.hpp"
#include "tests/support/transports.hpp"
#include "wreath/communicator.hpp"

namespace wreath {
namespace {

// Returns how often threads of this process with that name gave up a core or lost it.
long switches_of(const std::string& name) {
  long switches = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string own;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, own);
    if (own != name) continue;
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      long count = 0;
      if (word.find("ctxt_switches:") != std::string::npos && status >> count) switches += count;
    }
  }
  return switches;
}

void call(std::vector<Communicator>& ranks, std::size_t count, int calls) {
  std::vector<std::thread> threads;
  for (Communicator& rank : ranks) {
    threads.emplace_back([&rank, count, calls] {
      std::vector<float> data(count, 0.0F);
      for (int i = 0; i < calls; ++i) {
        ASSERT_TRUE(rank.all_reduce(data.data(), data.data(), count, DataType::Float32));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class Hops : public ::testing::TestWithParam<std::string> {};

TEST_P(Hops, BlockingCallsTakeNone) {
  CommunicatorOptions options;
  options.transports = {GetParam()};
  auto ranks = Communicator::create_local(2, options).value();
  constexpr int kCalls = 1000 / testing_support::kSlower;
  constexpr std::size_t kCounts[] = {2, 5'000, 50'000};
  // The progress thread announces staging to the peers, so these calls come before the count.
  for (const std::size_t count : kCounts) call(ranks, count, 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const long before = switches_of("wreath-progress");
  ASSERT_GT(before, 0);
  for (const std::size_t count : kCounts) call(ranks, count, kCalls);
  // Some switches may happen: a rank that a busy machine keeps from its core for 100 ms is asked where it is.
  EXPECT_LT(switches_of("wreath-progress") - before, kCalls / 5);
}

INSTANTIATE_TEST_SUITE_P(Over, Hops, ::testing::ValuesIn(test::usable_transports()),
                         [](const auto& transport) { return transport.param; });

}  // namespace
}  // namespace wreath
