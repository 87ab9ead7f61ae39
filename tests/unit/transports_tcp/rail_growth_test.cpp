// Times and bytes alone decide how many sockets a link between hosts uses. The tests make them.
#include "transports/tcp/rail_growth.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "src/base/clock.hpp"

namespace wreath::tcp_rail_growth {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kSecondNs = 1000 * kNsPerMs;

// A link that sends large messages all the time, at a rate that depends on the sockets that it uses.
struct Link {
  using Rate = std::function<double(std::size_t rails)>;  // bytes per ns

  explicit Link(Rate its_rate) : rate(std::move(its_rate)) { traffic.now_ns = 5 * kSecondNs; }

  // Looks at the link each 5 ms.
  void run(double seconds) {
    for (const std::int64_t end = traffic.now_ns + static_cast<std::int64_t>(seconds * 1e9); traffic.now_ns < end;) {
      constexpr std::int64_t kStepNs = 5 * kNsPerMs;
      traffic.now_ns += kStepNs;
      const auto bytes = static_cast<std::uint64_t>(rate(growth.uses()) * kStepNs);
      traffic.sent_bytes += bytes;
      traffic.arrived_bytes += bytes;
      traffic.under_way = true;
      most_wanted = std::max(most_wanted, growth.wants());
      if (opens) traffic.rails = growth.wants();
      growth.observe(traffic);
      if (std::string text = growth.take_news(); !text.empty()) news.push_back(std::move(text));
    }
  }

  Rate rate;
  RailGrowth growth;
  RailTraffic traffic;
  bool opens = true;  // sockets that are wanted are there at once
  std::size_t most_wanted = 1;
  std::vector<std::string> news;
};

constexpr double kRate = 0.1;  // 100 MB/s

TEST(TcpRailGrowth, DoublesTheSocketsAsLongAsTheyGain) {
  Link link([](std::size_t rails) { return kRate * static_cast<double>(rails); });
  link.run(1.5);
  EXPECT_EQ(link.most_wanted, 1U) << "two seconds must be busy";
  link.run(60);
  EXPECT_EQ(link.growth.uses(), 4U);
  EXPECT_EQ(link.most_wanted, 4U);
  EXPECT_THAT(link.news, ElementsAre("2 sockets carried 2.00 times as much as 1: it uses 2 from now on",
                                     "4 sockets carried 2.00 times as much as 2: it uses 4 from now on"));
}

TEST(TcpRailGrowth, KeepsWhatGained) {
  Link link([](std::size_t rails) { return rails == 1 ? kRate : 1.4 * kRate; });
  link.run(60);
  EXPECT_EQ(link.growth.uses(), 2U);
  EXPECT_EQ(link.growth.wants(), 2U);
  EXPECT_THAT(link.news, ElementsAre("2 sockets carried 1.40 times as much as 1: it uses 2 from now on",
                                     "4 sockets carried 1.00 times as much as 2: it stays with 2"));
}

TEST(TcpRailGrowth, StaysWhereNothingIsGainedAndTriesAgainLongAfter) {
  Link link([](std::size_t rails) { return rails == 1 ? kRate : 1.1 * kRate; });
  link.run(500);
  EXPECT_EQ(link.growth.wants(), 1U);
  EXPECT_THAT(link.news, ElementsAre("2 sockets carried 1.10 times as much as 1: it stays with 1"));
  link.run(200);
  EXPECT_EQ(link.news.size(), 2U);
  EXPECT_EQ(link.growth.wants(), 1U);
}

// The rate of each 100 ms is up to three times as high as that of another one, for whatever reason.
TEST(TcpRailGrowth, TakesNoiseForNoGain) {
  int taken = 0;
  constexpr int kLinks = 400;
  for (int seed = 0; seed < kLinks; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::normal_distribution<> noise(0, 0.3);
    double factor = 1;
    int steps = 0;
    Link link([&](std::size_t) {
      if (steps++ % 20 == 0) factor = std::exp(noise(random));
      return kRate * factor;
    });
    link.run(20);
    ASSERT_GE(link.news.size(), 1U);
    taken += link.news.front().ends_with("it uses 2 from now on") ? 1 : 0;
  }
  EXPECT_LE(taken, kLinks / 16);
}

TEST(TcpRailGrowth, SeesAGainThroughNoise) {
  int taken = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<> noise(0, 0.2);
    double factor = 1;
    int steps = 0;
    Link link([&](std::size_t rails) {
      if (steps++ % 20 == 0) factor = std::exp(noise(random));
      return kRate * factor * static_cast<double>(std::min<std::size_t>(rails, 2));
    });
    link.run(20);
    taken += link.growth.uses() >= 2 ? 1 : 0;
  }
  EXPECT_GE(taken, 98);
}

// A rate that rises, as while a network gets free, rises in both kinds of windows.
TEST(TcpRailGrowth, TakesATrendForNoGain) {
  for (const double each_second : {0.5, 0.9, 1.1, 2.0}) {
    Link* self = nullptr;
    Link link([&](std::size_t) {
      return kRate * std::pow(each_second, static_cast<double>(self->traffic.now_ns) / 1e9 - 8);
    });
    self = &link;
    link.run(12);
    EXPECT_EQ(link.growth.uses(), 1U) << each_second;
  }
}

TEST(TcpRailGrowth, CountsOnlyTheTimeInWhichMessagesAreUnderWay) {
  Link link([](std::size_t rails) { return kRate * static_cast<double>(rails); });
  std::mt19937 random(1);
  for (int call = 0; call < 1000; ++call) {
    link.traffic.under_way = true;
    link.growth.observe(link.traffic);
    link.run(0.04 / static_cast<double>(link.growth.uses()));
    // The messages have arrived, and the program computes.
    link.traffic.under_way = false;
    link.growth.observe(link.traffic);
    link.traffic.now_ns += static_cast<std::int64_t>(random() % 50) * kNsPerMs;
    link.growth.observe(link.traffic);
  }
  EXPECT_EQ(link.growth.uses(), 4U);
  ASSERT_EQ(link.news.size(), 2U);
  EXPECT_THAT(link.news[0], HasSubstr("carried 2.00 times as much"));
}

TEST(TcpRailGrowth, StaysWhereNoSocketComesAndSaysSoOnce) {
  Link link([](std::size_t rails) { return kRate * static_cast<double>(rails); });
  link.opens = false;
  link.run(1500);
  EXPECT_EQ(link.most_wanted, 2U);
  EXPECT_EQ(link.growth.uses(), 1U);
  EXPECT_THAT(link.news, ElementsAre("no further socket could be opened within 15 s: it stays with 1"));
}

TEST(TcpRailGrowth, WantsNothingForAQuietLink) {
  Link link([](std::size_t) { return 0.0005; });  // 0.5 MB/s
  link.run(100);
  EXPECT_EQ(link.most_wanted, 1U);
  EXPECT_THAT(link.news, IsEmpty());
}

TEST(TcpRailGrowth, EndsATrialWithoutAnswerWhereARailIsLostOrTheLinkGoesQuiet) {
  for (const bool lost : {true, false}) {
    Link link([](std::size_t rails) { return kRate * static_cast<double>(rails); });
    link.run(3);
    ASSERT_TRUE(link.growth.measures());
    if (lost) {
      link.traffic.rails = 1;
    } else {
      link.traffic.now_ns += 121 * kSecondNs;
    }
    link.growth.observe(link.traffic);
    EXPECT_FALSE(link.growth.measures());
    EXPECT_EQ(link.growth.wants(), 1U);
    EXPECT_EQ(link.growth.uses(), 1U);
    link.run(58);
    EXPECT_EQ(link.growth.wants(), 1U) << "there is a pause";
    link.run(20);
    EXPECT_EQ(link.growth.uses(), 4U);
  }
}

}  // namespace
}  // namespace wreath::tcp_rail_growth
