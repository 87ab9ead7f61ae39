// Tests promises of groups: patterns that would wait for each other, self messages, several communicators, misuse.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <thread>

#include "tests/support/local_ranks.hpp"
#include "tests/support/transports.hpp"
#include "wreath/wreath.hpp"

namespace wreath::test {
namespace {

std::vector<std::int32_t> numbers(std::size_t count, std::int32_t first) {
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::span<const std::int32_t> view(const std::vector<std::int32_t>& values) { return values; }

class Groups : public ::testing::TestWithParam<std::string> {
 protected:
  CommunicatorOptions options() const {
    CommunicatorOptions options;
    options.transports = {GetParam()};
    return options;
  }
};

// The size is larger than all slots together: without a group each rank would wait for another.
constexpr std::size_t kMuch = 1'000'000;

TEST_P(Groups, ShiftAlongARing) {
  LocalRanks job(5, options());
  job.run([&](Communicator& communicator) {
    const int n = communicator.ranks();
    const int me = communicator.rank();
    for (int turn = 0; turn < 3; ++turn) {
      const auto mine = numbers(kMuch, me);
      std::vector<std::int32_t> theirs(kMuch);
      Group group;
      communicator.send(view(mine), (me + 1) % n).value();
      communicator.recv(std::span(theirs), (me + n - 1) % n).value();
      group.run().value();
      EXPECT_EQ(theirs, numbers(kMuch, (me + n - 1) % n));
    }
  });
}

TEST_P(Groups, ExchangeAlongEveryDimensionOfACube) {
  LocalRanks job(8, options());
  job.run([&](Communicator& communicator) {
    const int me = communicator.rank();
    for (int bit = 1; bit < 8; bit *= 2) {
      const auto mine = numbers(100'000, me);
      std::vector<std::int32_t> theirs(mine.size());
      Group group;
      communicator.recv(std::span(theirs), me ^ bit).value();
      communicator.send(view(mine), me ^ bit).value();
      group.run().value();
      EXPECT_EQ(theirs, numbers(mine.size(), me ^ bit));
    }
  });
}

TEST_P(Groups, EveryRankSendsToEveryRankAndItself) {
  LocalRanks job(4, options());
  job.run([&](Communicator& communicator) {
    const int n = communicator.ranks();
    const int me = communicator.rank();
    std::vector<std::vector<std::int32_t>> sent;
    std::vector<std::vector<std::int32_t>> received(static_cast<std::size_t>(n), std::vector<std::int32_t>(1000));
    Group group;
    for (int peer = 0; peer < n; ++peer) sent.push_back(numbers(1000, 100 * me + peer));
    for (int peer = 0; peer < n; ++peer) communicator.send(view(sent[static_cast<std::size_t>(peer)]), peer).value();
    for (int peer = 0; peer < n; ++peer)
      communicator.recv(std::span(received[static_cast<std::size_t>(peer)]), peer).value();
    group.run().value();
    for (int peer = 0; peer < n; ++peer) {
      EXPECT_EQ(received[static_cast<std::size_t>(peer)], numbers(1000, 100 * peer + me));
    }
  });
}

// The two ends of a pair may group their calls differently.
TEST_P(Groups, MatchCallsMadeOneByOne) {
  LocalRanks job(2, options());
  job.run([&](Communicator& communicator) {
    const auto one = numbers(kMuch, 1);
    const auto two = numbers(70'000, 2);
    if (communicator.rank() == 0) {
      Group group;
      communicator.send(view(one), 1).value();
      communicator.send(view(two), 1).value();
      group.run().value();
    } else {
      std::vector<std::int32_t> first(one.size());
      std::vector<std::int32_t> second(two.size());
      communicator.recv(std::span(first), 0).value();
      Work work = communicator.recv_async(second.data(), second.size(), DataType::Int32, 0).value();
      work.wait().value();
      EXPECT_EQ(first, one);
      EXPECT_EQ(second, two);
    }
  });
}

// Rank 2 takes no part in the messages of ranks 0 and 1 and does not count them.
TEST_P(Groups, MixWithCollectivesOfAllRanks) {
  LocalRanks job(3, options());
  job.run([&](Communicator& communicator) {
    const int me = communicator.rank();
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<std::int32_t> sum(turn % 2 == 0 ? 10 : 200'000, me + 1);
      const auto mine = numbers(5000, me);
      std::vector<std::int32_t> theirs(5000);
      Group group;
      communicator.all_reduce(std::span(sum)).value();
      if (me < 2) communicator.send(view(mine), 1 - me).value();
      if (me < 2) communicator.recv(std::span(theirs), 1 - me).value();
      group.run().value();
      EXPECT_EQ(sum, std::vector<std::int32_t>(sum.size(), 6));
      EXPECT_TRUE(me == 2 || theirs == numbers(5000, 1 - me));
      if (me == 2) communicator.send(view(mine), 0).value();
      if (me == 0) {
        communicator.recv(std::span(theirs), 2).value();
        EXPECT_EQ(theirs, numbers(5000, 2));
      }
    }
  });
}

TEST_P(Groups, LetOneThreadDriveSeveralRanks) {
  LocalRanks job(4, options());
  for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{300'000}}) {
    std::vector<std::vector<std::int32_t>> values;
    for (int rank = 0; rank < 4; ++rank) values.emplace_back(count, rank + 1);
    std::vector<Work> works;
    Group group;
    for (Communicator& communicator : job.communicators()) {
      auto& mine = values[static_cast<std::size_t>(communicator.rank())];
      communicator.all_reduce(std::span(mine)).value();
      works.push_back(communicator.all_reduce_async(mine.data(), mine.data(), mine.size(), DataType::Int32).value());
    }
    EXPECT_FALSE(works[0].done());
    EXPECT_EQ(works[0].wait().error().code, ErrorCode::InvalidUsage) << "it was not launched yet";
    Work all = group.launch().value();
    all.wait().value();
    EXPECT_TRUE(all.done());
    for (Work& work : works) EXPECT_TRUE(work.done() && work.wait());
    for (const auto& mine : values) EXPECT_EQ(mine, std::vector<std::int32_t>(count, 40));
  }
}

// A group may have more calls than are in flight at once.
TEST_P(Groups, HoldMoreCallsThanAreInFlight) {
  LocalRanks job(2, options());
  std::vector<std::vector<std::int32_t>> values(2, std::vector<std::int32_t>(300, 1));
  Group group;
  for (Communicator& communicator : job.communicators()) {
    for (std::int32_t& value : values[static_cast<std::size_t>(communicator.rank())]) {
      communicator.all_reduce(std::span(&value, 1)).value();
    }
  }
  group.run().value();
  for (const auto& mine : values) EXPECT_EQ(mine, std::vector<std::int32_t>(300, 2));
}

TEST_P(Groups, NestAndTheOutermostLaunches) {
  LocalRanks job(2, options());
  job.run([&](Communicator& communicator) {
    const int peer = 1 - communicator.rank();
    const auto mine = numbers(kMuch, peer);
    std::vector<std::int32_t> theirs(kMuch);
    Group outer;
    {
      Group inner;
      communicator.send(view(mine), peer).value();
      Work nothing = inner.launch().value();
      EXPECT_TRUE(nothing.done());
      EXPECT_TRUE(nothing.wait());
    }
    communicator.recv(std::span(theirs), peer).value();
    outer.run().value();
    EXPECT_EQ(theirs, numbers(kMuch, 1 - peer));
  });
}

TEST_P(Groups, ThatWereLaunchedKeepNothingMore) {
  LocalRanks job(2, options());
  job.run([&](Communicator& communicator) {
    Group group;
    group.run().value();
    std::vector<std::int32_t> value(1, 4);
    communicator.all_reduce(std::span(value)).value();
    EXPECT_EQ(value[0], 8);
    EXPECT_EQ(group.launch().error().code, ErrorCode::InvalidUsage);
  });
}

TEST_P(Groups, DroppedWithoutLaunchBeginNothing) {
  LocalRanks job(2, options());
  job.run([&](Communicator& communicator) {
    std::vector<std::int32_t> value(1, 1);
    Work work;
    {
      Group group;
      work = communicator.all_reduce_async(value.data(), value.data(), 1, DataType::Int32).value();
      communicator.send(view(value), 1 - communicator.rank()).value();
    }
    EXPECT_TRUE(work.done());
    EXPECT_EQ(work.wait().error().code, ErrorCode::InvalidUsage);
    communicator.all_reduce(std::span(value)).value();
    EXPECT_EQ(value[0], 2);
  });
}

// Groups nest inside one thread; each thread has groups of its own.
TEST_P(Groups, EndBeforeTheOneAroundThem) {
  LocalRanks job(1, options());
  Communicator& communicator = job.communicators().front();
  std::int32_t value = 1;
  auto outer = std::make_unique<Group>();
  auto inner = std::make_unique<Group>();
  Work kept = communicator.all_reduce_async(&value, &value, 1, DataType::Int32).value();
  const auto launched = outer->launch();
  ASSERT_FALSE(launched);
  EXPECT_EQ(launched.error().code, ErrorCode::InvalidUsage);
  EXPECT_NE(launched.error().message.find("inside this one is still open"), std::string::npos)
      << launched.error().message;
  EXPECT_EQ(kept.wait().error().code, ErrorCode::InvalidUsage);
  outer.reset();
  // The outer group is gone, so that the inner one must not use it.
  inner.reset();
  communicator.barrier().value();
}

TEST_P(Groups, BelongToTheirThread) {
  LocalRanks job(2, options());
  LocalRanks others(2, options());
  job.run([&](Communicator& communicator) {
    std::vector<std::int32_t> grouped(1, 1);
    Group group;
    communicator.all_reduce(std::span(grouped)).value();
    std::jthread([&] {
      std::vector<std::int32_t> value(1, 5);
      others.communicators()[static_cast<std::size_t>(communicator.rank())].all_reduce(std::span(value)).value();
      EXPECT_EQ(value[0], 10);
    }).join();
    EXPECT_EQ(grouped[0], 1);
    group.run().value();
    EXPECT_EQ(grouped[0], 2);
  });
}

TEST_P(Groups, MayHoldNothing) {
  Group group;
  EXPECT_TRUE(group.run());
  LocalRanks job(2, options());
  job.run([&](Communicator& communicator) {
    communicator.send(nullptr, 0, DataType::Float32, 1 - communicator.rank()).value();
    communicator.recv(nullptr, 0, DataType::Float32, 1 - communicator.rank()).value();
  });
}

INSTANTIATE_TEST_SUITE_P(Over, Groups, ::testing::ValuesIn(usable_transports()),
                         [](const auto& transport) { return transport.param; });

// ---- misuse: said at once ----

class Misuse : public ::testing::Test {
 protected:
  LocalRanks job_{2, {}};
  Communicator& first_ = job_.communicators()[0];
  std::vector<float> data_ = std::vector<float>(100);
};

TEST_F(Misuse, APeerThatDoesNotExist) {
  const Status status = first_.send(std::span<const float>(data_), 2);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::InvalidArgument);
  EXPECT_NE(status.error().message.find("send: "), std::string::npos) << status.error().message;
  EXPECT_NE(status.error().message.find("to = 2"), std::string::npos) << status.error().message;
}

TEST_F(Misuse, AMessageToItselfOutsideAGroup) {
  const Status status = first_.recv(std::span(data_), 0);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::InvalidUsage);
  EXPECT_NE(status.error().message.find("Group"), std::string::npos) << status.error().message;
}

TEST_F(Misuse, AMessageToItselfWithoutItsCounterpart) {
  Group group;
  first_.send(std::span<const float>(data_), 0).value();
  const Status status = group.run();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::InvalidUsage);
}

TEST_F(Misuse, AMessageToItselfOfAnotherSize) {
  Group group;
  first_.send(std::span<const float>(data_).first(10), 0).value();
  first_.recv(std::span(data_).last(11), 0).value();
  EXPECT_EQ(group.run().error().code, ErrorCode::InvalidArgument);
}

TEST_F(Misuse, BuffersThatOverlap) {
  Group group;
  first_.send(std::span<const float>(data_).first(60), 1).value();
  first_.recv(std::span(data_).last(60), 1).value();
  const Status status = group.run();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::InvalidArgument);
}

TEST_F(Misuse, OfACommunicatorThatWasDestroyed) {
  auto others = Communicator::create_local(2).value();
  Group group;
  others[0].send(std::span<const float>(data_), 1).value();
  others.clear();
  const Status status = group.run();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::InvalidUsage);
  EXPECT_NE(status.error().message.find("was destroyed"), std::string::npos) << status.error().message;
}

// One of two communicators in a group gets a wrong argument. Nothing is begun, and launch returns the reason.
TEST_F(Misuse, OfOneCallBeginsNone) {
  LocalRanks others(1, {});
  std::vector<std::int32_t> value(1, 3);
  std::vector<std::int32_t> copy(1, 0);
  Group group;
  Work work = others.communicators()[0].all_reduce_async(value.data(), copy.data(), 1, DataType::Int32).value();
  EXPECT_EQ(first_.send(nullptr, 5, DataType::Float32, 1).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(group.launch().error().code, ErrorCode::InvalidArgument);
  EXPECT_TRUE(work.done());
  EXPECT_EQ(work.wait().error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(copy[0], 0);
}

}  // namespace
}  // namespace wreath::test
