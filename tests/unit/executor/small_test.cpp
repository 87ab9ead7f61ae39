// Tests the path of small messages, with ranks that take turns in one thread.
#include "src/executor/small.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <set>

#include "tests/unit/executor/small_walk.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kBeforeTheWrap = 0xFFFF'FFFBU;

struct Small {
  explicit Small(int ranks, SmallShape shape = {}, bool ping_pong = false) {
    for (std::size_t i = 0; ping_pong && i < places.size(); ++i) {
      places[i].resize(kSmallPingPongBytes + 64);
      shape.ping_pong[i] = aligned(places[i]);
    }
    for (int rank = 0; rank < ranks; ++rank) areas.emplace_back(small_area_bytes(ranks) + 64);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<const std::byte*> seen;
      for (auto& area : areas) seen.push_back(aligned(area));
      exchanges.emplace_back(rank, seen, aligned(areas[static_cast<std::size_t>(rank)]), shape);
    }
  }
  static std::byte* aligned(std::vector<std::byte>& area) {
    return area.data() + (64 - reinterpret_cast<std::uintptr_t>(area.data()) % 64) % 64;
  }
  std::vector<std::vector<std::byte>> areas;
  std::array<std::vector<std::byte>, 2> places;  // of ping-pong
  std::vector<SmallExchange> exchanges;
};

TEST(SmallExchange, EveryCollectiveMeansWhatItSays) {
  std::mt19937 random(3);
  for (const int ranks : {2, 3, 5, 8}) {
    Walk walk(mixed_cases(ranks, kSmallMessageBytes, random), Small(ranks, {.first_sequence = kBeforeTheWrap}));
    walk.run(static_cast<std::uint32_t>(ranks));
    if (HasFatalFailure()) return;
  }
}

TEST(SmallExchange, LargerMessagesOfTwoRanksMeanWhatTheySay) {
  std::mt19937 random(4);
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    Walk walk(mixed_cases(2, kPairMessageBytes, random), Small(2, {kPairMessageBytes, kBeforeTheWrap}));
    walk.run(seed);
    if (HasFatalFailure()) return;
  }
}

TEST(SmallExchange, PingPongMeansTheSame) {
  std::mt19937 random(5);
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    for (const std::size_t most : {kSmallMessageBytes, kPairMessageBytes}) {
      Walk walk(mixed_cases(2, most, random), Small(2, {most, kBeforeTheWrap, {}}, true));
      walk.run(seed);
      if (HasFatalFailure()) return;
    }
  }
}

// Returns where rank 0's block of that size lies after each of some calls in which both ranks send.
std::vector<const std::byte*> ping_pong_places(std::size_t bytes) {
  Small small(2, {}, true);
  std::vector<const std::byte*> places;
  for (std::size_t call = 0; call < 8; ++call) {
    const Case test{Collective::AllGather, 0, bytes / sizeof(float)};
    const std::vector<float> inputs[2] = {std::vector<float>(test.count, 1000.0F + static_cast<float>(call)),
                                          std::vector<float>(test.count, 2.0F)};
    std::vector<float> outputs[2] = {std::vector<float>(2 * test.count), std::vector<float>(2 * test.count)};
    for (std::size_t rank : {0U, 1U}) small.exchanges[rank].start(call_of(test, inputs[rank], outputs[rank]), 5);
    for (std::size_t rank : {0U, 1U}) EXPECT_EQ(small.exchanges[rank].run(), Advance::Done);
    const auto* const data = reinterpret_cast<const std::byte*>(inputs[0].data());
    for (const auto& memory : small.places) {
      const auto found = std::search(memory.begin(), memory.end(), data, data + bytes);
      if (found != memory.end()) places.push_back(&*found);
    }
  }
  return places;
}

TEST(SmallExchange, ARankWritesWhereItHasReadLast) {
  const std::vector<const std::byte*> places = ping_pong_places(4096);
  ASSERT_EQ(places.size(), 8U);
  EXPECT_NE(places[0], places[1]);
  for (std::size_t i = 2; i < places.size(); ++i) EXPECT_EQ(places[i], places[i - 2]) << i;
  const std::vector<const std::byte*> large = ping_pong_places(kPairMessageBytes);
  ASSERT_EQ(large.size(), 8U);
  EXPECT_EQ(std::set<const std::byte*>(large.begin(), large.end()).size(), 4U) << "two of each rank";
  for (std::size_t i = 4; i < large.size(); ++i) EXPECT_EQ(large[i], large[i - 4]) << i;
}

// Sends broadcasts of rank 0 until that rank must wait for rank 1, which reads none. Returns the places of their blocks
// in the area of rank 0.
std::vector<std::size_t> places_of_unread(const std::vector<std::size_t>& bytes) {
  Small small(2, {kPairMessageBytes, 0});
  const std::byte* const area = Small::aligned(small.areas[0]);
  std::vector<std::size_t> places;
  std::vector<float> output(kPairMessageBytes / sizeof(float));
  for (std::size_t call = 0; call < bytes.size(); ++call) {
    const std::vector<float> input(bytes[call] / sizeof(float), 1000.0F + static_cast<float>(call));
    small.exchanges[0].start(call_of({Collective::Broadcast, 0, input.size()}, input, output), 5);
    if (small.exchanges[0].run() != Advance::Done) break;
    const std::byte* const end = area + small_area_bytes(2);
    const auto* const data = reinterpret_cast<const std::byte*>(input.data());
    places.push_back(static_cast<std::size_t>(std::search(area, end, data, data + bytes[call]) - area));
  }
  return places;
}

TEST(SmallExchange, BlocksOfTwoRanksFillTheirRingAndNoneMeetsAnother) {
  std::vector<std::size_t> bytes;
  for (std::size_t i = 0; i < 40; ++i) bytes.push_back(i % 3 == 0 ? 4096 : kPairMessageBytes - 64 * i);
  const std::vector<std::size_t> places = places_of_unread(bytes);
  ASSERT_EQ(places.size(), 32U) << "so many may be unread";
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  for (std::size_t i = 0; i < places.size(); ++i) {
    ASSERT_LT(places[i], small_area_bytes(2)) << i;
    taken.emplace_back(places[i], places[i] + bytes[i]);
  }
  std::sort(taken.begin(), taken.end());
  for (std::size_t i = 1; i < taken.size(); ++i) EXPECT_LE(taken[i - 1].second, taken[i].first) << i;
  const std::vector<std::size_t> small = places_of_unread(std::vector<std::size_t>(32, 4096));
  EXPECT_EQ(small.back() - small.front(), 31U * (64 + 4096)) << "one behind the other";
}

TEST(SmallExchange, RootsRunAheadButNotOverWhatIsUnread) {
  for (const Collective collective : {Collective::Broadcast, Collective::Reduce, Collective::Scatter}) {
    std::vector<Case> cases(500, Case{collective, 1, 3});
    Walk walk(cases, Small(3));
    walk.run(11);
    if (HasFatalFailure()) return;
    EXPECT_GE(walk.furthest_apart(), 4U) << name(collective);
    EXPECT_LE(walk.furthest_apart(), 33U) << name(collective);
  }
}

// Blocks have fewer buffers than lines. A rank that took a few lines in silence announces this before it waits for a
// block.
TEST(SmallExchange, ARankThatWaitsHasToldHowFarItIs) {
  std::vector<Case> cases(12, Case{Collective::Broadcast, 0, 2});
  cases.resize(14, Case{Collective::Broadcast, 0, 1000});
  Small small(2);
  std::vector<float> input(1000, 1.0F);
  std::vector<float> output(1000);
  std::size_t sent = 0;
  std::size_t taken = 0;
  small.exchanges[0].start(call_of(cases[0], input, input), 5);
  small.exchanges[1].start(call_of(cases[0], output, output), 5);
  for (int turn = 0; turn < 100 && taken < cases.size(); ++turn) {
    while (sent < cases.size() && small.exchanges[0].run() == Advance::Done) {
      if (++sent < cases.size()) small.exchanges[0].start(call_of(cases[sent], input, input), 5);
    }
    while (taken < cases.size() && small.exchanges[1].run() == Advance::Done) {
      if (++taken < cases.size()) small.exchanges[1].start(call_of(cases[taken], output, output), 5);
    }
  }
  EXPECT_EQ(sent, cases.size());
  EXPECT_EQ(taken, cases.size());
}

TEST(SmallExchange, WaitsForTheRankThatIsFurthestBehind) {
  Small small(3);
  std::vector<float> data(4, 1.0F);
  const Case test{Collective::Broadcast, 0, data.size()};
  int calls = 0;
  for (; calls < 100; ++calls) {
    small.exchanges[0].start(call_of(test, data, data), 5);
    if (small.exchanges[0].run() != Advance::Done) break;
  }
  EXPECT_EQ(calls, 32);
  std::vector<float> got(4);
  for (int i = 0; i < calls; ++i) {
    small.exchanges[1].start(call_of(test, data, got), 5);
    ASSERT_EQ(small.exchanges[1].run(), Advance::Done);
  }
  EXPECT_EQ(small.exchanges[0].run(), Advance::Blocked);
  EXPECT_EQ(small.exchanges[0].waiting_for(), 2);
  bool told = false;
  for (int i = 0; i < calls; ++i) {
    small.exchanges[2].start(call_of(test, data, got), 5);
    ASSERT_EQ(small.exchanges[2].run(), Advance::Done);
    told = small.exchanges[2].take_told() || told;
  }
  EXPECT_TRUE(told) << "the root may sleep until it hears of it";
  EXPECT_EQ(small.exchanges[0].run(), Advance::Done);
}

TEST(SmallExchange, NamesThePeerInAnotherCall) {
  Small small(3);
  const std::vector<float> input(5, 1.0F);
  std::vector<float> output(5);
  const Call call = call_of({Collective::AllReduce, 0, input.size()}, input, output);
  small.exchanges[0].start(call, 17);
  small.exchanges[1].start(call, 17);
  EXPECT_EQ(small.exchanges[0].run(), Advance::Blocked);
  EXPECT_EQ(small.exchanges[0].waiting_for(), 2);
  small.exchanges[2].start(call, 18);
  EXPECT_EQ(small.exchanges[0].run(), Advance::Failed);
  EXPECT_EQ(small.exchanges[0].waiting_for(), 2);
}

}  // namespace
}  // namespace wreath
