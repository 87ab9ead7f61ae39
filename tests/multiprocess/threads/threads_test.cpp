// Runs several communicators, with a thread for each on every rank, and calls in random order. Every result must be
// right.
#include <atomic>
#include <random>

#include "tests/support/processes.hpp"

namespace wreath::testing_support {
namespace {

constexpr int kCommunicators = 4;
constexpr std::size_t kCounts[] = {1, 14, 250, 4'000, 5'000, 70'000, 300'000};

// Makes calls of one communicator, some blocking and some not. The sizes are the same on all ranks.
int call_often(Communicator& communicator, int seed, std::int64_t calls) {
  std::mt19937 sizes(static_cast<std::uint32_t>(seed));
  std::mt19937 pauses(static_cast<std::uint32_t>(seed * 31 + communicator.rank()));
  const auto n = static_cast<float>(communicator.ranks());
  std::vector<float> input(300'000);
  std::vector<float> output(300'000);
  int wrong = 0;
  for (std::int64_t call = 0; call < calls; ++call) {
    const std::size_t pick = sizes() % 20;
    const std::size_t count = kCounts[pick < 14 ? pick % 5 : pick % 7];
    const auto base = static_cast<float>(call % 50 + seed);
    std::fill_n(input.begin(), count, base + static_cast<float>(communicator.rank()));
    Status status;
    if (pauses() % 4 == 0) {
      auto work = communicator.all_reduce_async(input.data(), output.data(), count, DataType::Float32);
      if (!work) return 1'000'000;
      if (pauses() % 2 == 0) sleep_ms(1);
      status = work->wait();
    } else {
      status = communicator.all_reduce(input.data(), output.data(), count, DataType::Float32);
    }
    if (!status) {
      std::cerr << status.error().message << "\n";
      return 1'000'000;
    }
    const float expected = n * base + n * (n - 1) / 2;
    for (std::size_t i = 0; i < count; ++i) wrong += output[i] == expected ? 0 : 1;
  }
  return wrong;
}

WREATH_ROLE(many) {
  std::vector<Communicator> communicators;
  for (int i = 0; i < kCommunicators; ++i) {
    auto made = child.create();
    if (!made) return child.failed(made.error());
    communicators.push_back(std::move(*made));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kCommunicators; ++i) {
    threads.emplace_back(
        [&, i] { wrong += call_often(communicators[static_cast<std::size_t>(i)], i + 1, child.number("calls")); });
  }
  for (std::thread& thread : threads) thread.join();
  child.report("wrong " + std::to_string(wrong));
  return wrong == 0 ? 0 : 1;
}

// Uses several communicators in one thread. Their calls are in flight at once, and start in another order on each rank.
WREATH_ROLE(orders) {
  std::vector<Communicator> communicators;
  for (int i = 0; i < kCommunicators; ++i) {
    auto made = child.create();
    if (!made) return child.failed(made.error());
    communicators.push_back(std::move(*made));
  }
  std::mt19937 order(static_cast<std::uint32_t>(child.rank() + 1));
  std::vector<std::vector<float>> buffers(kCommunicators, std::vector<float>(50'000));
  for (std::int64_t call = 0; call < child.number("calls"); ++call) {
    std::vector<std::size_t> turn{0, 1, 2, 3};
    std::shuffle(turn.begin(), turn.end(), order);
    std::vector<Work> works(kCommunicators);
    const std::size_t count = call % 2 == 0 ? 100 : 50'000;
    for (const std::size_t i : turn) {
      std::fill_n(buffers[i].begin(), count, static_cast<float>(child.rank() + 1));
      works[i] =
          communicators[i].all_reduce_async(buffers[i].data(), buffers[i].data(), count, DataType::Float32).value();
    }
    std::shuffle(turn.begin(), turn.end(), order);
    for (const std::size_t i : turn) {
      if (const Status status = works[i].wait(); !status) return child.failed(status.error());
      const auto n = static_cast<float>(child.ranks());
      if (buffers[i][count - 1] != n * (n + 1) / 2) return 1;
    }
  }
  return 0;
}

class Threads : public ::testing::TestWithParam<std::string> {
 protected:
  void run(const std::string& role, int ranks, int calls) {
    Job job(
        role, ranks,
        {{"transport", GetParam()}, {"calls", std::to_string(calls)}, {"stall_ms", "20000"}, {"arrival_ms", "60000"}});
    ASSERT_TRUE(job.share_id(kCommunicators)) << job.logs();
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(job[rank].join(240'000), 0) << job.logs();
  }
};

TEST_P(Threads, OfSeveralCommunicatorsGetTheRightData) { run("many", 2, rounds(500 / kSlower, 10'000)); }
TEST_P(Threads, OnMoreRanksThanCoresGetTheRightData) { run("many", 4, rounds(125 / kSlower, 2'500)); }
TEST_P(Threads, MayStartCommunicatorsInAnyOrder) { run("orders", 3, rounds(60 / kSlower, 1'000)); }

INSTANTIATE_TEST_SUITE_P(Over, Threads, ::testing::Values("shm", "tcp"),
                         [](const auto& transport) { return transport.param; });

}  // namespace
}  // namespace wreath::testing_support
