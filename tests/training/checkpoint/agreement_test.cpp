// Ranks exchange sizes, errors and states around a checkpoint.
#include "training/checkpoint/agreement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "tests/support/local_ranks.hpp"

namespace wreath::training {
namespace {

using wreath::test::LocalRanks;

TEST(Agreement, TextsOfAnyLengthReachAllRanks) {
  LocalRanks ranks(3, {});
  ranks.run([](Communicator& world) {
    Agreement agreement = std::move(Agreement::create(world)).value();
    const std::string mine(static_cast<std::size_t>(world.rank()) * 100'000, static_cast<char>('a' + world.rank()));
    const std::vector<std::string> all = agreement.gather(mine).value();
    EXPECT_EQ(all, (std::vector<std::string>{"", std::string(100'000, 'b'), std::string(200'000, 'c')}));
    EXPECT_EQ(agreement.gather("").value(), std::vector<std::string>(3));
  });
}

TEST(Agreement, TheLowestRanksErrorIsEverybodys) {
  LocalRanks ranks(4, {});
  ranks.run([](Communicator& world) {
    Agreement agreement = std::move(Agreement::create(world)).value();
    EXPECT_TRUE(agreement.agree({}));
    const Status mine =
        world.rank() < 2 ? Status() : Status(Error{ErrorCode::Unavailable, "no " + std::to_string(world.rank()), -1});
    const Status all = agreement.agree(mine);
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().code, ErrorCode::Unavailable);
    EXPECT_EQ(all.error().message, "rank 2: no 2");
    EXPECT_EQ(all.error().failed_rank, 2);
  });
}

TEST(Agreement, TurnsAreOfAtMostSoManyRanksAndErrorsEndNone) {
  LocalRanks ranks(5, {});
  std::atomic<int> working{0};
  std::atomic<int> most{0};
  std::atomic<int> done{0};
  ranks.run([&](Communicator& world) {
    Agreement agreement = std::move(Agreement::create(world)).value();
    const Status mine = agreement.take_turn(2, [&]() -> Status {
      const int now = ++working;
      int seen = most;
      while (seen < now && !most.compare_exchange_weak(seen, now)) {
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      --working;
      ++done;
      if (world.rank() == 1) throw std::runtime_error("out of luck");
      return {};
    });
    const Status all = agreement.agree(mine);
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().message, "rank 1: checkpoint: out of luck");
  });
  EXPECT_EQ(done, 5);
  EXPECT_LE(most, 2);
}

}  // namespace
}  // namespace wreath::training
