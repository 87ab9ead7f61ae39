// Tests two more things that a wire between processes must do. A rank sleeps while no message comes, and messages have
// the bytes that a buffer has now, also where other pages were mapped at its address.
#include <sys/mman.h>
#include <time.h>

#include <cstring>

#include "tests/support/processes.hpp"
#include "tests/support/transports.hpp"
#include "wreath/memory.hpp"

namespace wreath::testing_support::wires {
namespace {

constexpr int kPauseMs = 700;

std::int64_t cpu_ms() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<std::int64_t>(used.tv_sec) * 1'000 + used.tv_nsec / 1'000'000;
}

// Sends or receives `count` floats a few times. Rank 1 lets rank 0 wait for each message.
WREATH_ROLE(waiting) {
  auto communicator = child.create();
  if (!communicator) return child.failed(communicator.error());
  std::vector<float> buffer(static_cast<std::size_t>(child.number("count")));
  for (int round = 1; round <= 3; ++round) {
    const auto value = static_cast<float>(round);
    const std::int64_t begin_ms = now_ns() / 1'000'000;
    const std::int64_t cpu_begin_ms = cpu_ms();
    if (child.rank() == 1) {
      sleep_ms(kPauseMs);
      std::fill(buffer.begin(), buffer.end(), value);
    }
    const Status status = child.rank() == 1 ? communicator->send(std::span<const float>(buffer), 0)
                                            : communicator->recv(std::span<float>(buffer), 1);
    if (!status) return child.failed(status.error());
    const bool right = std::all_of(buffer.begin(), buffer.end(), [&](float each) { return each == value; });
    child.report("waited " + std::to_string(now_ns() / 1'000'000 - begin_ms) + " " +
                 std::to_string(cpu_ms() - cpu_begin_ms) + " " + std::to_string(right ? 1 : 0));
    if (const Status met = communicator->barrier(); !met) return child.failed(met.error());
  }
  return 0;
}

class Wires : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const std::string why = test::why_skipped(GetParam()); !why.empty())
      GTEST_SKIP() << why << test::kNeedsAdapters;
  }
};

TEST_P(Wires, LetARankSleepUntilAMessageComes) {
  for (const char* const count : {"16", "100000"}) {
    Job job("waiting", 2, {{"transport", GetParam()}, {"count", count}, {"arrival_ms", "10000"}},
            {{"WREATH_SPIN_US", "0"}});
    ASSERT_TRUE(job.share_id()) << job.logs();
    double least_share = 1;  // a machine with other work only adds to it
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(job[0].wait_for("waited ", 20'000 * kSlower)) << job.logs();
      std::istringstream line(job[0].lines().back().substr(7));
      std::int64_t waited_ms = 0;
      std::int64_t worked_ms = 0;
      int right = 0;
      line >> waited_ms >> worked_ms >> right;
      EXPECT_EQ(right, 1) << job.logs();
      EXPECT_GE(waited_ms, kPauseMs * 9 / 10);
      least_share = std::min(least_share, static_cast<double>(worked_ms) / static_cast<double>(waited_ms));
    }
    EXPECT_LE(least_share, 0.25) << "it did not sleep";
    EXPECT_EQ(job[0].join(20'000 * kSlower), 0) << job.logs();
    EXPECT_EQ(job[1].join(20'000 * kSlower), 0) << job.logs();
  }
}

// Returns `bytes` of new pages, at that address where it is not null.
float* map_pages(std::size_t bytes, void* at) {
  const int place = at != nullptr ? MAP_FIXED_NOREPLACE : 0;
  void* const pages = ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | place, -1, 0);
  return pages == MAP_FAILED ? nullptr : static_cast<float*>(pages);
}

// Sums a buffer over the ranks, and returns whether the sum is right. Each call has other values.
Result<bool> sum_of(Communicator& communicator, std::span<float> buffer, int call) {
  std::fill(buffer.begin(), buffer.end(), static_cast<float>(communicator.rank() + call));
  WREATH_TRY(communicator.all_reduce(buffer));
  const int ranks = communicator.ranks();
  const auto sum = static_cast<float>(ranks * call + ranks * (ranks - 1) / 2);
  return std::all_of(buffer.begin(), buffer.end(), [&](float each) { return each == sum; });
}

// Sums one range of addresses again and again, before and after other pages lie there: registered ones, private ones
// again, and new ones.
WREATH_ROLE(remapping) {
  auto communicator = child.create();
  if (!communicator) return child.failed(communicator.error());
  const auto bytes = static_cast<std::size_t>(child.number("bytes"));
  void* at = nullptr;
  int wrong = 0;
  for (int round = 0; round < 3; ++round) {
    float* const pages = map_pages(bytes, at);
    if (pages == nullptr) return 98;
    const std::span<float> buffer(pages, bytes / sizeof(float));
    for (const int step : {1, 2, 3}) {
      std::optional<Registration> registered;
      if (step == 2) registered = register_memory(pages, bytes).value();
      const auto right = sum_of(*communicator, buffer, 10 * round + step);
      if (!right) return child.failed(right.error());
      wrong += *right ? 0 : 1;
    }
    at = pages;
    ::munmap(pages, bytes);
  }
  child.report("wrong " + std::to_string(wrong));
  return 0;
}

TEST_P(Wires, SendTheBytesThatABufferHasNow) {
  for (const char* const bytes : {"16384", "524288"}) {
    Job job("remapping", 2, {{"transport", GetParam()}, {"bytes", bytes}});
    ASSERT_TRUE(job.share_id()) << job.logs();
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(job[rank].join(30'000 * kSlower), 0) << job.logs();
      ASSERT_FALSE(job[rank].lines().empty()) << job.logs();
      EXPECT_EQ(job[rank].lines().back(), "wrong 0") << job.logs();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Multiprocess, Wires, ::testing::Values("tcp", "verbs", "ofi"),
                         [](const auto& transport) { return std::string(transport.param); });

}  // namespace
}  // namespace wreath::testing_support::wires
