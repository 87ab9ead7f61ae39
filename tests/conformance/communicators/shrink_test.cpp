// Tests shrink among ranks that are threads: they abort and leave instead of dying.
#include <gtest/gtest.h>

#include "tests/support/local_ranks.hpp"

namespace wreath::test {
namespace {

constexpr int kRanks = 4;

void expect_sum(Communicator& communicator, float sum) {
  std::vector<float> values(100, 1.0F);
  const Status status = communicator.all_reduce(std::span<float>(values));
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(values.front(), sum);
  EXPECT_EQ(values.back(), sum);
}

TEST(Shrink, GoesOnWithoutARankThatAborted) {
  LocalRanks ranks(kRanks, {});
  ranks.run([](Communicator& communicator) {
    if (communicator.rank() == 1) {
      communicator.abort().value();
      const auto refused = communicator.shrink();
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, ErrorCode::Aborted);
      return;
    }
    auto survivors = communicator.shrink();
    ASSERT_TRUE(survivors) << survivors.error().message;
    EXPECT_EQ(survivors->ranks(), kRanks - 1);
    EXPECT_EQ(survivors->rank(), communicator.rank() == 0 ? 0 : communicator.rank() - 1);
    expect_sum(*survivors, kRanks - 1);
    EXPECT_FALSE(communicator.error());
  });
}

TEST(Shrink, GoesOnWithoutARankThatLeft) {
  LocalRanks ranks(kRanks, {});
  ranks.run([](Communicator& communicator) {
    if (communicator.rank() == 3) {
      communicator = Communicator();
      return;
    }
    auto survivors = communicator.shrink();
    ASSERT_TRUE(survivors) << survivors.error().message;
    EXPECT_EQ(survivors->ranks(), kRanks - 1);
    expect_sum(*survivors, kRanks - 1);
  });
}

TEST(Shrink, WithoutAFailureGivesTheSameMembersAndHarmsNothing) {
  LocalRanks ranks(kRanks, {});
  ranks.run([](Communicator& communicator) {
    auto same = communicator.shrink();
    ASSERT_TRUE(same) << same.error().message;
    EXPECT_EQ(same->ranks(), kRanks);
    EXPECT_EQ(same->rank(), communicator.rank());
    expect_sum(*same, kRanks);
    expect_sum(communicator, kRanks);
  });
}

TEST(Shrink, AgainAndAgainDownToOne) {
  LocalRanks ranks(kRanks, {});
  ranks.run([](Communicator& communicator) {
    Communicator current = std::move(communicator);
    for (int left = kRanks - 1; left > 0; --left) {
      if (current.rank() == 0) {
        // Rank 0 leaves once the others have the data that it sent; an abort would end their call.
        current = Communicator();
        return;
      }
      auto survivors = current.shrink();
      ASSERT_TRUE(survivors) << survivors.error().message;
      current = std::move(*survivors);
      EXPECT_EQ(current.ranks(), left);
      expect_sum(current, static_cast<float>(left));
    }
  });
}

// Every rank that calls shrink gets an error when the larger part does not come.
TEST(Shrink, OfTheSmallerPartIsRefused) {
  LocalRanks ranks(kRanks, {});
  ranks.run([](Communicator& communicator) {
    if (communicator.rank() != 1) return;
    const auto alone = communicator.shrink(100);
    ASSERT_FALSE(alone);
    EXPECT_EQ(alone.error().code, ErrorCode::PeerLost) << alone.error().message;
    EXPECT_NE(alone.error().message.find("larger side"), std::string::npos) << alone.error().message;
  });
}

TEST(Shrink, IsEndedByAbort) {
  LocalRanks ranks(2, {});
  ranks.run([](Communicator& communicator) {
    if (communicator.rank() == 0) return;
    std::thread aborting([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      communicator.abort().value();
    });
    const auto refused = communicator.shrink();
    aborting.join();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::Aborted);
  });
}

TEST(Shrink, WithoutARankThatLivesGoesOnAtOnce) {
  LocalRanks ranks(kRanks, {});
  const Rank left_out = 2;
  ranks.run([&](Communicator& communicator) {
    if (communicator.rank() != left_out) {
      auto others = communicator.shrink(60'000, std::span(&left_out, 1));
      ASSERT_TRUE(others) << others.error().message;
      EXPECT_EQ(others->ranks(), kRanks - 1);
      expect_sum(*others, kRanks - 1);
    }
    expect_sum(communicator, kRanks);  // the parent is as it was
  });
}

TEST(Shrink, RefusesToLeaveOutItselfOrNobody) {
  LocalRanks ranks(2, {});
  for (const Rank wrong : {-1, 0, 2}) {
    const auto refused = ranks.communicators()[0].shrink(1000, std::span(&wrong, 1));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
    EXPECT_NE(refused.error().message.find("without = " + std::to_string(wrong)), std::string::npos);
  }
}

TEST(Shrink, FollowsARevoke) {
  LocalRanks ranks(kRanks, {});
  ranks.run([](Communicator& communicator) {
    communicator.revoke().value();
    const Status after = communicator.barrier();
    ASSERT_FALSE(after);
    EXPECT_EQ(after.error().code, ErrorCode::Aborted);
    auto survivors = communicator.shrink();
    ASSERT_TRUE(survivors) << survivors.error().message;
    expect_sum(*survivors, kRanks);
  });
}

TEST(Shrink, RefusesANegativeTimeout) {
  LocalRanks ranks(1, {});
  EXPECT_EQ(ranks.communicators()[0].shrink(-1).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(Communicator().shrink().error().code, ErrorCode::InvalidUsage);
}

}  // namespace
}  // namespace wreath::test
