// Tests plans of exchanges: what is refused, and that the real executor ends every group with few slots and few rounds.
#include "src/engine/exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "src/communicator/check_messages.hpp"
#include "src/engine/exchange_log.hpp"
#include "src/executor/handwritten/handwritten.hpp"
#include "src/executor/linked_ranks.hpp"
#include "tests/support/lane_trace.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/random_exchange.hpp"

namespace wreath::test {
namespace {

constexpr std::uint32_t kTileBytes = 128;

struct OneRank {
  ExchangeMessages messages;
  ExchangePlan plan;
  LaneScheduler lanes;
  StepTrace trace;
  std::vector<std::vector<std::byte>> memory;  // by call
};

// Makes the ranks of a job whose messages are random. One thread advances them in random turns.
class World {
 public:
  World(int ranks, std::uint32_t slots, HandwrittenLoop loop)
      : loop_(loop),
        ranks_(static_cast<std::size_t>(ranks)),
        links_(ranks, FifoShape{16, slots, kTileBytes, 0xFFFFFFFD, 1}) {
    for (OneRank& own : ranks_) {
      own.lanes.set_trace(&own.trace);
    }
  }

  // Returns what went wrong, or an empty text where every message arrived.
  std::string run(const RandomExchange& exchange, std::size_t resident_rounds, std::mt19937_64& random) {
    start(exchange, 2 * resident_rounds);
    std::vector<std::size_t> open(ranks_.size());
    for (std::size_t rank = 0; rank < open.size(); ++rank) open[rank] = rank;
    for (std::size_t blocked = 0; !open.empty();) {
      const std::size_t turn = random() % open.size();
      switch (ranks_[open[turn]].lanes.run(1 + static_cast<int>(random() % 3))) {
        case Advance::Failed: return "failed";
        case Advance::Done: open.erase(open.begin() + static_cast<std::ptrdiff_t>(turn)); [[fallthrough]];
        case Advance::Advanced: blocked = 0; break;
        case Advance::Blocked: ++blocked;
      }
      if (blocked > 100 * ranks_.size() && all_blocked(open)) return "deadlock";
    }
    return check(exchange);
  }

 private:
  void start(const RandomExchange& exchange, std::size_t resident_lanes) {
    const int n = static_cast<int>(ranks_.size());
    for (Rank rank = 0; rank < n; ++rank) {
      OneRank& own = ranks_[static_cast<std::size_t>(rank)];
      own.messages = {};
      own.trace = {};
      own.memory.clear();
      for (const RandomCall& call : exchange.calls[static_cast<std::size_t>(rank)]) {
        const RandomMessage& message = exchange.messages[call.index];
        own.memory.push_back(call.sends ? message.data() : std::vector<std::byte>(message.bytes));
        (call.sends ? own.messages.sends : own.messages.receives)
            .push_back(
                {call.sends ? message.to : message.from, DataType::Uint8, message.bytes, own.memory.back().data(), 0});
      }
      check_messages(own.messages, rank).value();
      plan_exchange(own.messages, rank, n, {kTileBytes}, own.plan);
      links_.bind(rank, own.plan.bound);
      OperationState state;
      state.geometry = own.plan.geometry;
      state.buffers[static_cast<int>(Buffer::Input)] = own.plan.input.first;
      state.buffers[static_cast<int>(Buffer::Output)] = own.plan.output.first;
      state.epoch = 1;
      state.loop = loop_;
      HostProcessor processor;
      processor.by_hand = &advance_handwritten;
      processor.copies.plain = processor.copies.fill = [](std::byte* target, const std::byte* source,
                                                          std::size_t bytes) { std::copy_n(source, bytes, target); };
      own.lanes.start(own.plan.bound, state, processor, resident_lanes);
    }
  }

  bool all_blocked(const std::vector<std::size_t>& open) {
    return std::all_of(open.begin(), open.end(),
                       [&](std::size_t rank) { return ranks_[rank].lanes.run(1) == Advance::Blocked; });
  }

  std::string check(const RandomExchange& exchange) const {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const ExchangePlan& plan = ranks_[rank].plan;
      std::string wrong = differs(ranks_[rank].trace, plan.bound.lowered, plan.geometry);
      if (!wrong.empty()) return wrong;
      for (std::size_t i = 0; i < exchange.calls[rank].size(); ++i) {
        const RandomCall& call = exchange.calls[rank][i];
        if (exchange.messages[call.index].first_wrong(ranks_[rank].memory[i]) >= 0) return "wrong data";
      }
    }
    return {};
  }

  HandwrittenLoop loop_;
  std::vector<OneRank> ranks_;
  LinkedRanks links_;
};

// Runs exchanges by steps, and by the handwritten loop.
class ExchangeRuns : public testing::TestWithParam<HandwrittenLoop> {};

// Steps never wait for one of several messages, so an exchange that ends in one order of turns ends in all.
TEST_P(ExchangeRuns, EndWithFewSlotsAndFewResidentRounds) {
  std::mt19937_64 random(42);
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const std::uint32_t slots : {1U, 2U, 8U}) {
      World world(ranks, slots, GetParam());
      for (const std::size_t resident_rounds : {std::size_t{1}, std::size_t{2}, std::size_t{8}}) {
        for (std::uint32_t i = 0; i < 30; i += testing_support::case_step()) {
          const RandomExchange exchange = random_exchange(ranks, random, kTileBytes, 6 * kTileBytes);
          ASSERT_EQ(world.run(exchange, resident_rounds, random), "")
              << ranks << " ranks, " << slots << " slots, " << resident_rounds << " rounds";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Executors, ExchangeRuns,
                         testing::Values(HandwrittenLoop::None, handwritten_loop(Collective::Exchange, "")),
                         [](const auto& row) { return row.param == HandwrittenLoop::None ? "steps" : "handwritten"; });

std::vector<std::byte> memory(1000);

ExchangeMessage message(Rank peer, std::size_t first, std::size_t count, DataType dtype = DataType::Uint8) {
  return {peer, dtype, count, memory.data() + first, 0};
}

TEST(Exchange, DoesAPairsMessagesOneAfterTheOther) {
  const ExchangeMessages messages{{message(2, 0, 10), message(1, 20, 300), message(2, 400, 50)}, {message(1, 600, 7)}};
  ExchangePlan plan;
  plan_exchange(messages, 0, 3, {kTileBytes}, plan);
  const Lowered& lowered = plan.bound.lowered;
  ASSERT_EQ(lowered.lanes.size(), 3u);
  EXPECT_EQ(lowered.targets, (std::vector<FifoEnd>{{1, kExchangeLane}, {2, kExchangeLane}}));
  EXPECT_EQ(lowered.sources, (std::vector<FifoEnd>{{1, kExchangeLane}}));
  EXPECT_EQ(lowered.lanes[1].step_count, 2u) << "round 2 sends to rank 2, before it receives from rank 1";
  EXPECT_TRUE(lowered.step_major);
  EXPECT_EQ(plan.geometry.tiles, 3u);
  EXPECT_EQ(plan.geometry.input.part(1).first, 20u);
}

// Both ends of a message know its size, and nothing else of each other's calls.
TEST(Exchange, CutsLargeMessagesIntoLargerTiles) {
  const ExchangeMessages messages{{message(1, 0, 299), message(1, 299, 300)}, {message(1, 600, 310)}};
  ExchangePlan plan;
  plan_exchange(messages, 0, 2, {kTileBytes, 2 * kTileBytes, 300}, plan);
  const Geometry& geometry = plan.geometry;
  EXPECT_EQ(geometry.range(Buffer::Input, 0, 0, 1).count, kTileBytes);
  EXPECT_EQ(geometry.range(Buffer::Input, 1, 0, 1).first, 299 + 2 * kTileBytes);
  EXPECT_EQ(geometry.range(Buffer::Input, 1, 0, 1).count, 300 - 2 * kTileBytes);
  EXPECT_EQ(geometry.range(Buffer::Output, 0, 0, 1).count, 310 - 2 * kTileBytes);
  EXPECT_EQ(geometry.tiles, 3u);
}

TEST(Exchange, RefusesMessagesToItselfThatDoNotMatch) {
  EXPECT_TRUE(check_messages({{message(0, 0, 5)}, {message(0, 5, 5)}}, 0));
  EXPECT_EQ(check_messages({{message(0, 0, 5)}, {message(0, 5, 6)}}, 0).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(check_messages({{message(0, 0, 5)}, {message(0, 8, 5, DataType::Int8)}}, 0).error().code,
            ErrorCode::InvalidArgument);
  EXPECT_EQ(check_messages({{message(0, 0, 5)}, {}}, 0).error().code, ErrorCode::InvalidUsage);
  EXPECT_EQ(check_messages({{}, {message(1, 0, 5), message(0, 5, 5)}}, 0).error().code, ErrorCode::InvalidUsage);
}

TEST(Exchange, RefusesToReceiveWhereOtherMessagesAre) {
  const auto verdict = [](const ExchangeMessages& messages) { return static_cast<bool>(check_messages(messages, 0)); };
  EXPECT_TRUE(verdict({{message(1, 0, 10), message(2, 0, 10), message(2, 5, 10)}, {}})) << "it may be sent twice";
  EXPECT_TRUE(verdict({{message(1, 0, 10)}, {message(1, 10, 10), message(2, 20, 10)}}));
  EXPECT_FALSE(verdict({{message(1, 0, 10)}, {message(1, 9, 10)}}));
  EXPECT_FALSE(verdict({{message(1, 19, 10)}, {message(1, 10, 10)}}));
  EXPECT_FALSE(verdict({{}, {message(1, 10, 10), message(1, 12, 2)}}));
  EXPECT_TRUE(verdict({{message(1, 12, 0)}, {message(1, 10, 10)}}));
  EXPECT_THAT(check_messages({{message(1, 0, 20), message(3, 5, 2)}, {message(2, 19, 10)}}, 0).error().message,
              testing::MatchesRegex("send to rank 1 \\(20 bytes at .*\\) and recv from rank 2 \\(10 bytes at .*\\) "
                                    "use the same memory"));
}

TEST(ExchangeLog, NumbersTheMessagesOfAPairAndRemembersTheLast) {
  ExchangeLog log(3);
  for (int i = 0; i < 100; ++i) {
    ExchangeMessages messages{{message(1, 0, 5), message(2, 0, 0)}, {message(1, 10, static_cast<std::size_t>(i))}};
    log.enter(messages, 0);
    EXPECT_EQ(messages.sends[0].number, static_cast<std::uint64_t>(i) + 1);
    EXPECT_EQ(messages.sends[1].number, static_cast<std::uint64_t>(i) + 1) << "one of nothing counts, too";
  }
  EXPECT_EQ(log.count(Direction::Send, 1), 100u);
  EXPECT_EQ(log.count(Direction::Receive, 1), 100u);
  EXPECT_EQ(log.count(Direction::Receive, 2), 0u);
  EXPECT_EQ(log.find(Direction::Receive, 1, 100)->count, 99u);
  EXPECT_EQ(log.find(Direction::Receive, 1, 60)->count, 59u);
  EXPECT_FALSE(log.find(Direction::Receive, 1, 1)) << "long ago";
  EXPECT_FALSE(log.find(Direction::Receive, 1, 101));
  EXPECT_TRUE(log.entered(Direction::Receive, 1, 1));
  EXPECT_FALSE(log.entered(Direction::Receive, 2, 1));
  EXPECT_EQ(describe_message(Direction::Send, *log.find(Direction::Send, 1, 7 + 60)), "send #67 to rank 1 uint8 x 5");
}

TEST(ExchangeLog, IsReadWhileMessagesAreEntered) {
  ExchangeLog log(2);
  constexpr std::uint64_t kMessages = 20'000;
  std::thread reader([&] {
    for (std::uint64_t seen = 0; seen < kMessages;) {
      seen = log.count(Direction::Send, 1);
      for (std::uint64_t back = 0; back < 70 && back < seen; ++back) {
        const auto found = log.find(Direction::Send, 1, seen - back);
        if (found) {
          ASSERT_EQ(found->count, seen - back) << "a message that was written over";
        }
      }
    }
  });
  for (std::uint64_t i = 1; i <= kMessages; ++i) {
    ExchangeMessages messages{{message(1, 0, i)}, {}};
    log.enter(messages, 0);
  }
  reader.join();
}

}  // namespace
}  // namespace wreath::test
