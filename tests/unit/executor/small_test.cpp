// Tests the path of small messages, with ranks that take turns in one thread.
#include "src/executor/small.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <set>

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

struct Case {
  Collective collective;
  Rank root;
  std::size_t count;  // of the vector, or of a block
};

bool gives_blocks(Collective collective) {
  return collective == Collective::ReduceScatter || collective == Collective::AllToAll ||
         collective == Collective::Scatter;
}
bool gets_blocks(Collective collective) {
  return collective == Collective::AllGather || collective == Collective::AllToAll || collective == Collective::Gather;
}

Call call_of(const Case& test, const std::vector<float>& input, std::vector<float>& output) {
  return {.collective = test.collective,
          .root = test.root,
          .input = reinterpret_cast<const std::byte*>(input.data()),
          .output = reinterpret_cast<std::byte*>(output.data()),
          .count = test.count};
}

// Returns what rank `rank` puts at `index` in call `call`. The values are small integers, so that sums are exact.
float value_of(std::size_t call, int rank, std::size_t index) {
  return static_cast<float>((call * 7 + static_cast<std::size_t>(rank) * 31 + index * 3) % 101);
}

std::vector<float> input_of(const Case& test, std::size_t call, int rank, int ranks) {
  std::vector<float> input(test.count * (gives_blocks(test.collective) ? static_cast<std::size_t>(ranks) : 1));
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = value_of(call, rank, i);
  return input;
}

bool has_result(const Case& test, int rank) {
  const bool to_root = test.collective == Collective::Reduce || test.collective == Collective::Gather;
  return !to_root || rank == test.root;
}

// Returns the expected value, by the meaning of the collective alone.
float expected(const Case& test, std::size_t call, int rank, int ranks, std::size_t i) {
  const std::size_t own = static_cast<std::size_t>(rank) * test.count;
  const auto sum = [&](std::size_t index) {
    float total = 0;
    for (int r = 0; r < ranks; ++r) total += value_of(call, r, index);
    return total;
  };
  switch (test.collective) {
    case Collective::AllReduce:
    case Collective::Reduce: return sum(i);
    case Collective::ReduceScatter: return sum(own + i);
    case Collective::Broadcast: return value_of(call, test.root, i);
    case Collective::Scatter: return value_of(call, test.root, own + i);
    case Collective::AllToAll: return value_of(call, static_cast<int>(i / test.count), own + i % test.count);
    default: return value_of(call, static_cast<int>(i / test.count), i % test.count);  // all_gather, gather
  }
}

// Advances ranks in a random order through `cases`, each as far ahead of the others as the protocol permits.
class Walk {
 public:
  Walk(int ranks, std::vector<Case> cases, const SmallShape& shape, bool ping_pong = false)
      : cases_(std::move(cases)), small_(ranks, shape, ping_pong), ranks_(static_cast<std::size_t>(ranks)) {}

  void run(std::uint32_t seed) {
    std::mt19937 random(seed);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) begin(rank);
    for (int turn = 0; !over(); ++turn) {
      ASSERT_LT(turn, 3'000'000) << "a message was lost";
      const std::size_t rank = random() % ranks_.size();
      if (ranks_[rank].at == cases_.size() || small_.exchanges[rank].run() != Advance::Done) continue;
      check(rank);
      if (testing::Test::HasFatalFailure()) return;
      ++ranks_[rank].at;
      begin(rank);
    }
  }
  std::size_t furthest_apart() const { return apart_; }

 private:
  struct OneRank {
    std::size_t at = 0;
    std::vector<float> input;
    std::vector<float> output;
  };

  int count() const { return static_cast<int>(ranks_.size()); }
  bool over() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [&](const OneRank& rank) { return rank.at == cases_.size(); });
  }
  void begin(std::size_t index) {
    OneRank& rank = ranks_[index];
    for (const OneRank& other : ranks_)
      apart_ = std::max(apart_, std::max(rank.at, other.at) - std::min(rank.at, other.at));
    if (rank.at == cases_.size()) return;
    const Case& test = cases_[rank.at];
    rank.input = input_of(test, rank.at, static_cast<int>(index), count());
    rank.output.assign(test.count * (gets_blocks(test.collective) ? ranks_.size() : 1), -1.0F);
    small_.exchanges[index].start(call_of(test, rank.input, rank.output), static_cast<std::uint32_t>(rank.at));
  }
  void check(std::size_t index) {
    const OneRank& rank = ranks_[index];
    const Case& test = cases_[rank.at];
    const int me = static_cast<int>(index);
    for (std::size_t i = 0; i < rank.output.size(); ++i) {
      const float right = has_result(test, me) ? expected(test, rank.at, me, count(), i) : -1.0F;
      ASSERT_EQ(rank.output[i], right) << name(test.collective) << " #" << rank.at << " of " << test.count
                                       << " elements, root " << test.root << ", rank " << me << ", element " << i;
    }
  }

  std::vector<Case> cases_;
  Small small_;
  std::vector<OneRank> ranks_;
  std::size_t apart_ = 0;
};

constexpr Collective kAll[] = {Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather,
                               Collective::Broadcast, Collective::Reduce,        Collective::AllToAll,
                               Collective::Gather,    Collective::Scatter};

// Returns as many calls of one collective as there are buffers and more, and then calls of others. The sizes include
// all at the ends of lines.
std::vector<Case> mixed_cases(int ranks, std::size_t most_bytes, std::mt19937& random) {
  std::vector<Case> cases;
  constexpr std::size_t kCounts[] = {1, 2, 13, 14, 15, 27, 28, 29, 64, 85, 86, 255, 256, 257, 700, 1365, 5000, 8192};
  while (cases.size() < 1500) {
    const Collective collective = kAll[random() % std::size(kAll)];
    const std::size_t repeats = 1 + random() % 20;
    for (std::size_t i = 0; i < repeats; ++i) {
      const std::size_t most = most_bytes / sizeof(float) / static_cast<std::size_t>(ranks);
      const std::size_t count = std::min(kCounts[random() % std::size(kCounts)], most);
      cases.push_back({collective, static_cast<Rank>(random() % static_cast<unsigned>(ranks)), count});
    }
  }
  return cases;
}

TEST(SmallExchange, EveryCollectiveMeansWhatItSays) {
  std::mt19937 random(3);
  for (const int ranks : {2, 3, 5, 8}) {
    Walk walk(ranks, mixed_cases(ranks, kSmallMessageBytes, random), {.first_sequence = kBeforeTheWrap});
    walk.run(static_cast<std::uint32_t>(ranks));
    if (HasFatalFailure()) return;
  }
}

TEST(SmallExchange, LargerMessagesOfTwoRanksMeanWhatTheySay) {
  std::mt19937 random(4);
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    Walk walk(2, mixed_cases(2, kPairMessageBytes, random), {kPairMessageBytes, kBeforeTheWrap});
    walk.run(seed);
    if (HasFatalFailure()) return;
  }
}

TEST(SmallExchange, PingPongMeansTheSame) {
  std::mt19937 random(5);
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    for (const std::size_t most : {kSmallMessageBytes, kPairMessageBytes}) {
      Walk walk(2, mixed_cases(2, most, random), {most, kBeforeTheWrap, {}}, true);
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
    Walk walk(3, cases, {});
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
