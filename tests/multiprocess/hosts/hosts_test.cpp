// Several hosts, made of network namespaces: how their ranks meet, over which card, and what is said when they cannot.
#include <gmock/gmock.h>

#include "tests/support/network.hpp"
#include "tests/support/processes.hpp"

namespace wreath::testing_support::hosts {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

WREATH_ROLE(on_host) {
  if (!Network::enter(child.text("host"))) return 98;
  auto communicator = Communicator::create_from_environment(child.options());
  if (!communicator) return child.failed(communicator.error());
  const int ranks = communicator->ranks();
  child.report("transport " + communicator->transport_to((communicator->rank() + ranks / 2) % ranks));
  const std::int64_t calls = child.number("calls");
  for (std::int64_t i = 0; i < calls; ++i) {
    std::vector<float> buffer(i % 2 == 0 ? 10 : 200'000, static_cast<float>(communicator->rank() + 1));
    if (const Status status = communicator->all_reduce(std::span<float>(buffer)); !status)
      return child.failed(status.error());
    if (buffer.back() != static_cast<float>(ranks * (ranks + 1) / 2)) return 1;
    if (i == 10) child.report("running");
  }
  return 0;
}

const Arguments kKey{{"WREATH_KEY", std::string(64, 'c')}};

Arguments with_key(Arguments more) {
  more.insert(kKey.begin(), kKey.end());
  return more;
}

constexpr int kPort = 29'873;

// Ranks 0 and 1 on host 0, ranks 2 and 3 on host 1, and so on, started as torchrun would.
class Job {
 public:
  Job(const Network& network, int hosts, const Arguments& environment, const std::string& calls,
      const std::string& bootstrap_ms = "8000") {
    for (int rank = 0; rank < 2 * hosts; ++rank) {
      Arguments all{{"RANK", std::to_string(rank)},
                    {"WORLD_SIZE", std::to_string(2 * hosts)},
                    {"MASTER_ADDR", network.address(0)},
                    {"MASTER_PORT", std::to_string(kPort)},
                    {"HOME", folder_.path()},
                    {"WREATH_RECORDER_DIR", folder_.path()}};
      for (const auto& [name, value] : environment) all[name] = value;
      ranks_.push_back(RankProcess::start("on_host",
                                          {{"host", Network::space(rank / 2)},
                                           {"calls", calls},
                                           {"bootstrap_ms", bootstrap_ms},
                                           {"stall_ms", "60000"},
                                           {"arrival_ms", "60000"}},
                                          all, folder_ / ("log-" + std::to_string(rank))));
    }
  }
  std::vector<RankProcess>& ranks() { return ranks_; }

  void expect_to_end_well() {
    for (RankProcess& rank : ranks_) {
      EXPECT_EQ(rank.join(40'000 * kSlower), 0) << said(rank);
      ASSERT_FALSE(rank.lines().empty());
      EXPECT_TRUE(rank.lines().front().starts_with("transport tcp")) << rank.lines().front();
    }
  }
  // All fail at their start; what they say together.
  std::string expect_no_start() {
    std::string all;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      EXPECT_EQ(ranks_[i].join(20'000 * kSlower), 6) << said(ranks_[i]);
      all += "rank " + std::to_string(i) + " says: " + said(ranks_[i]) + "\n";
    }
    std::cerr << all;
    return all;
  }
  static std::string said(const RankProcess& process) {
    return process.failure() ? process.failure()->message : process.log();
  }

 private:
  Folder folder_;
  std::vector<RankProcess> ranks_;
};

TEST(Hosts, MeetWithAKey) {
  for (const int hosts : {2, 3}) {
    const Network network(hosts);
    if (!network.made()) GTEST_SKIP() << Network::kNeeds;
    Job(network, hosts, kKey, "200").expect_to_end_well();
  }
}

TEST(Hosts, MeetOverIpv6Alone) {
  const Network network(2, Family::V6);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  Job(network, 2, kKey, "50").expect_to_end_well();
}

TEST(Hosts, DoNotMeetWithoutAKey) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  EXPECT_THAT(Job(network, 2, {}, "10", "3000").expect_no_start(), HasSubstr("WREATH_KEY"));
}

// Each side names a rank of the other, within 10 s.
TEST(Hosts, NoticeWhenOneIsCutOff) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  Job job(network, 2, kKey, "100000000");
  std::vector<RankProcess>& ranks = job.ranks();
  for (RankProcess& rank : ranks) ASSERT_TRUE(rank.wait_for("running", 20'000 * kSlower)) << Job::said(rank);
  ASSERT_TRUE(network.unplug(1));
  const Deadline deadline = Deadline::after_ms(10'500 * kSlower);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ASSERT_TRUE(ranks[rank].wait_for("error ", deadline.left_ms())) << "rank " << rank << " said nothing within 10 s";
    const auto failure = ranks[rank].failure();
    EXPECT_EQ(failure->code, ErrorCode::PeerLost) << failure->message;
    EXPECT_EQ(failure->failed_rank / 2, rank < 2 ? 1 : 0) << failure->message;
    EXPECT_EQ(ranks[rank].join(10'000), 3);
  }
}

// The way to rank 0 is the way to all, whatever other cards there are.
TEST(Hosts, PassADeadCardThatNobodyNamed) {
  const Network network(3);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  ASSERT_TRUE(network.break_switch(1));
  Job(network, 3, kKey, "20").expect_to_end_well();
}

// Both cards may be used, and the first has no carrier.
TEST(Hosts, PassACardWithoutACarrier) {
  const Network network(3);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  for (int host = 0; host < 3; ++host) ASSERT_TRUE(network.unplug(host, 0));
  Job(network, 3, with_key({{"MASTER_ADDR", network.address(0, 1)}, {"WREATH_SOCKET_IFNAME", "eth"}}), "20")
      .expect_to_end_well();
}

// Both cards may be used, and what goes to the first is lost: found out by trying.
TEST(Hosts, FailOverFromACardThatLosesAll) {
  const Network network(3);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  ASSERT_TRUE(network.break_switch(0));
  Job(network, 3, with_key({{"MASTER_ADDR", network.address(0, 1)}, {"WREATH_SOCKET_IFNAME", "eth"}}), "20", "30000")
      .expect_to_end_well();
}

TEST(Hosts, FindRankZeroAtTheAddressThatWorks) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  ASSERT_TRUE(network.break_switch(0));
  Job(network, 2, with_key({{"WREATH_ADDRESS", network.address(0, 0) + "," + network.address(0, 1)}}), "20", "30000")
      .expect_to_end_well();
}

TEST(Hosts, NameACardThatIsNotThere) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  EXPECT_THAT(Job(network, 2, with_key({{"WREATH_SOCKET_IFNAME", "=ib0"}}), "10").expect_no_start(),
              AllOf(HasSubstr("WREATH_SOCKET_IFNAME==ib0"), HasSubstr("eth0 10.73.0.")));
}

// Both ranks, the card, the address and the port, before the start's time is over.
TEST(Hosts, NameAFilteredPortBetweenRanks) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  if (!network.filter(0, 41'000, 41'010)) GTEST_SKIP() << "needs nft or iptables: install nftables";
  const std::string text = Job(network, 2, with_key({{"WREATH_PORT_RANGE", "41000-41010"}}), "10").expect_no_start();
  EXPECT_THAT(text, AllOf(ContainsRegex("rank [23] .host [^)]*.: no connection to rank [01] .host "),
                          HasSubstr("10.73.0.1:4100"), HasSubstr("from 10.73.0.2 (eth0)"), HasSubstr("firewall")));
}

TEST(Hosts, NameAFilteredPortOfTheMeetingPoint) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  if (!network.filter(0, kPort, kPort + 15)) GTEST_SKIP() << "needs nft or iptables: install nftables";
  const std::string text = Job(network, 2, kKey, "10").expect_no_start();
  EXPECT_THAT(text, AllOf(HasSubstr("rank 2 found no meeting point at 10.73.0.1:29873"), HasSubstr("rank 0 must be"),
                          HasSubstr("from 10.73.0.2 (eth0)"), HasSubstr("firewall")));
  EXPECT_THAT(text, HasSubstr("ranks 2, 3 of 4 did not arrive"));
}

}  // namespace
}  // namespace wreath::testing_support::hosts
