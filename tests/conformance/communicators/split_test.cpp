// Tests split and duplicate, among threads and processes: the members of each part, their order, and their sums.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/local_ranks.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/resources.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::test {
namespace {

using testing_support::Child;
using testing_support::Job;
using testing_support::kSlower;

// Returns the ranks of the parent that are in `communicator`, in its order; empty with a failure on error.
std::vector<int> members_of(Communicator& communicator, int parent_rank) {
  std::vector<int> members(static_cast<std::size_t>(communicator.ranks()), -1);
  std::vector<int> own{parent_rank};
  const Status status = communicator.all_gather(std::span<const int>(own), std::span<int>(members));
  if (status) return members;
  ADD_FAILURE() << status.error().message;
  return {};
}

TEST(Split, GroupsByColorInTheOrderOfKeys) {
  LocalRanks ranks(6, {});
  ranks.run([](Communicator& parent) {
    const int color = parent.rank() % 2;
    auto child = parent.split(color, -parent.rank());
    ASSERT_TRUE(child) << child.error().message;
    const std::vector<int> expected = color == 0 ? std::vector<int>{4, 2, 0} : std::vector<int>{5, 3, 1};
    EXPECT_EQ(members_of(*child, parent.rank()), expected);
    EXPECT_EQ(expected[static_cast<std::size_t>(child->rank())], parent.rank());
  });
}

TEST(Split, EqualKeysKeepTheOrderOfRanks) {
  LocalRanks ranks(4, {});
  ranks.run([](Communicator& parent) {
    auto child = parent.split(7);
    ASSERT_TRUE(child) << child.error().message;
    EXPECT_EQ(members_of(*child, parent.rank()), (std::vector<int>{0, 1, 2, 3}));
  });
}

TEST(Split, WithANegativeColorTakesPartAndGetsNone) {
  LocalRanks ranks(3, {});
  ranks.run([](Communicator& parent) {
    auto child = parent.split(parent.rank() == 1 ? -1 : 0);
    ASSERT_TRUE(child) << child.error().message;
    EXPECT_EQ(child->ranks(), parent.rank() == 1 ? 0 : 2);
    if (child->ranks() == 0) return;
    EXPECT_EQ(members_of(*child, parent.rank()), (std::vector<int>{0, 2}));
  });
}

TEST(Split, OfSplitsAndParentsTogether) {
  LocalRanks ranks(4, {});
  ranks.run([](Communicator& parent) {
    auto half = parent.split(parent.rank() / 2);
    ASSERT_TRUE(half) << half.error().message;
    auto alone = half->split(half->rank());
    ASSERT_TRUE(alone) << alone.error().message;
    EXPECT_EQ(alone->ranks(), 1);
    EXPECT_EQ(members_of(*half, parent.rank()).size(), 2U);
    EXPECT_EQ(members_of(parent, parent.rank()).size(), 4U);
    EXPECT_EQ(members_of(*alone, parent.rank()), std::vector<int>{parent.rank()});
  });
}

TEST(Duplicate, HasTheSameRanksAndFailsAlone) {
  LocalRanks ranks(3, {});
  ranks.run([](Communicator& parent) {
    auto twin = parent.duplicate();
    ASSERT_TRUE(twin) << twin.error().message;
    EXPECT_EQ(twin->rank(), parent.rank());
    EXPECT_EQ(members_of(*twin, parent.rank()), (std::vector<int>{0, 1, 2}));
    parent.barrier().value();  // an abort would end the call of the others
    twin->abort().value();
    EXPECT_FALSE(twin->error());
    EXPECT_EQ(members_of(parent, parent.rank()), (std::vector<int>{0, 1, 2}));
  });
}

TEST(Split, InheritsOptions) {
  CommunicatorOptions options;
  options.transports = {"tcp"};
  LocalRanks ranks(2, options);
  ranks.run([](Communicator& parent) {
    auto child = parent.duplicate();
    ASSERT_TRUE(child) << child.error().message;
    EXPECT_EQ(child->transport_to(1 - child->rank()), parent.transport_to(1 - parent.rank()));
  });
}

TEST(Split, ThatARankDoesNotCallEndsInTime) {
  CommunicatorOptions options;
  options.timeouts.arrival_ms = 300;
  LocalRanks ranks(3, options);
  ranks.run([](Communicator& parent) {
    if (parent.rank() == 2) return;
    const auto child = parent.split(0);
    ASSERT_FALSE(child);
    EXPECT_EQ(child.error().code, ErrorCode::Timeout) << child.error().message;
    EXPECT_EQ(child.error().failed_rank, 2) << child.error().message;
  });
}

// A rank that leaves ends the wait of the others at once, because it can never come.
TEST(Split, ThatARankLeavesInsteadOfCallingIsAnErrorOfTheOthers) {
  LocalRanks ranks(3, {});
  const RecordingsFolder kept;
  std::vector<std::jthread> threads;
  for (const std::size_t rank : {0U, 1U}) {
    threads.emplace_back([&, rank] {
      const auto child = ranks.communicators()[rank].split(0);
      ASSERT_FALSE(child);
      EXPECT_EQ(child.error().code, ErrorCode::PeerLost) << child.error().message;
      EXPECT_EQ(child.error().failed_rank, 2);
      EXPECT_NE(child.error().message.find("has not called split: it destroyed its communicator"), std::string::npos)
          << child.error().message;
    });
  }
  { const Communicator left = std::move(ranks.communicators()[2]); }
}

TEST(Split, OfAFailedCommunicatorReturnsItsError) {
  LocalRanks ranks(2, {});
  ranks.communicators()[0].abort().value();
  EXPECT_EQ(ranks.communicators()[0].split(0).error().code, ErrorCode::Aborted);
  EXPECT_EQ(Communicator().split(0).error().code, ErrorCode::InvalidUsage);
}

TEST(Split, EndsWhenARankAborts) {
  LocalRanks ranks(3, {});
  ranks.run([](Communicator& parent) {
    if (parent.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      parent.abort().value();
      return;
    }
    const auto child = parent.split(0);
    ASSERT_FALSE(child);
    EXPECT_EQ(child.error().code, ErrorCode::Aborted) << child.error().message;
  });
}

// Splits into `groups`, reduces in the group, in a duplicate of it and in the parent, and reports the sums.
WREATH_ROLE(split) {
  auto parent = child.create();
  if (!parent) return child.failed(parent.error());
  const int color = child.rank() % static_cast<int>(child.number("groups"));
  auto group = parent->split(color);
  if (!group) return child.failed(group.error());
  auto twin = group->duplicate();
  if (!twin) return child.failed(twin.error());
  std::string told = "sums";
  for (Communicator* communicator : {&*group, &*twin, &*parent}) {
    std::vector<int> values(5'000, child.rank());
    if (const Status status = communicator->all_reduce(std::span<int>(values)); !status) {
      return child.failed(status.error());
    }
    const bool even = std::count(values.begin(), values.end(), values[0]) == static_cast<std::ptrdiff_t>(values.size());
    told += " " + std::to_string(even ? values[0] : -1);
  }
  child.report(told);
  return 0;
}

// Makes every rank a group of its own. Rank `poor` has no descriptors left to make one.
WREATH_ROLE(split_poor) {
  auto parent = child.create();
  if (!parent) return child.failed(parent.error());
  if (child.rank() == child.number("poor")) testing_support::leave_descriptors(0);
  const auto group = parent->split(child.rank());
  if (!group) return child.failed(group.error());
  child.report("made");
  return 0;
}

TEST(SplitProcess, AnErrorOfOneRankIsAnErrorOfAllThatNamesIt) {
  if (testing_support::kSanitized)
    GTEST_SKIP() << "UBSan needs descriptors to look at memory: run it in the preset dev";
  constexpr int kRanks = 3;
  constexpr int kPoor = 1;
  Job job("split_poor", kRanks, {{"transport", "shm"}, {"poor", std::to_string(kPoor)}});
  ASSERT_TRUE(job.share_id());
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(job[rank].join(30'000 * kSlower).has_value()) << job.logs();
    const auto failure = job[rank].failure();
    ASSERT_TRUE(failure.has_value()) << job.logs();
    EXPECT_EQ(failure->failed_rank, kPoor) << failure->message;
    EXPECT_NE(failure->message.find("split: rank 1: "), std::string::npos) << failure->message;
  }
}

class SplitProcesses : public ::testing::TestWithParam<std::string> {};

TEST_P(SplitProcesses, ReduceInTheirGroups) {
  constexpr int kRanks = 6;
  constexpr int kGroups = 2;
  Job job("split", kRanks, {{"transport", GetParam()}, {"groups", std::to_string(kGroups)}});
  ASSERT_TRUE(job.share_id());
  for (int rank = 0; rank < kRanks; ++rank) {
    int sum = 0;
    for (int other = rank % kGroups; other < kRanks; other += kGroups) sum += other;
    const std::string group = std::to_string(sum);
    ASSERT_TRUE(job[rank].wait_for("sums", 60'000 * kSlower)) << job.logs();
    EXPECT_EQ(job[rank].lines().back(), "sums " + group + " " + group + " 15");
    EXPECT_EQ(job[rank].join(30'000 * kSlower), 0) << job.logs();
  }
}

INSTANTIATE_TEST_SUITE_P(Over, SplitProcesses, ::testing::Values("shm", "tcp"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace wreath::test
